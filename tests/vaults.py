"""A vault and a place for backups, for tests that need them and no database."""

from collections.abc import AsyncIterator

from domain.errors import NotFound
from domain.ports import Snapshot


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


class MemoryBackups:
    """`domain.ports.Backups`, unsealed."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def keep(self, snapshot: Snapshot, pieces: AsyncIterator[bytes]) -> str:
        self.kept[snapshot.name] = b"".join([piece async for piece in pieces])
        return snapshot.name
