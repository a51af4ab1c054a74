"""A vault for tests that need one and no database."""

from domain.errors import NotFound


class MemoryVault:
    """`domain.ports.Vault`, unsealed."""

    def __init__(self) -> None:
        self.secrets: dict[str, bytes] = {}

    async def keep(self, reference: str, secret: bytes) -> None:
        self.secrets[reference] = secret

    async def keep_first(self, reference: str, secret: bytes) -> bytes:
        return self.secrets.setdefault(reference, secret)

    async def open(self, reference: str) -> bytes:
        if reference not in self.secrets:
            raise NotFound(f"nothing lies at {reference}")
        return self.secrets[reference]
