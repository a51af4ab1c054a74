"""Secrets at rest. They are asked for by reference, and only clients ask."""

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import NotFound
from store.engine import Database, Store, reading, transaction
from store.rows import SecretRow, now
from store.sealing import Seal


class Secrets(Store):
    """The vault of `domain.ports`, in our own database."""

    def __init__(self, database: Database, seal: Seal) -> None:
        super().__init__(database)
        self._seal = seal

    @transaction
    async def keep(self, session: AsyncSession, reference: str, secret: bytes) -> None:
        """Seal a secret, replacing what lay there."""
        await session.merge(self._row(reference, secret))

    @transaction
    async def keep_first(self, session: AsyncSession, reference: str, secret: bytes) -> bytes:
        """Seal a secret unless there is one, and return the one that lies there now."""
        if row := await session.get(SecretRow, reference):
            return self._seal.open(reference, row.sealed)
        session.add(self._row(reference, secret))
        return secret

    @transaction
    async def drop(self, session: AsyncSession, reference: str) -> bool:
        """Forget a secret, and whether there was one."""
        if (row := await session.get(SecretRow, reference)) is None:
            return False
        await session.delete(row)
        return True

    @reading
    async def open(self, session: AsyncSession, reference: str) -> bytes:
        """The secret. NotFound if there is none."""
        row = await session.get(SecretRow, reference)
        if row is None:
            raise NotFound(f"there is no secret {reference}", subject=reference)
        return self._seal.open(reference, row.sealed)

    @reading
    async def verify(self, session: AsyncSession) -> None:
        """Refuse to go on with a key that does not open what lies here, before anything is sealed
        with it: a lost key file must not be replaced by a new one unnoticed."""
        row = await session.scalar(select(SecretRow).limit(1))
        if row is not None:
            self._seal.open(row.reference, row.sealed)

    def add(self, session: AsyncSession, reference: str, secret: bytes) -> None:
        """Seal a secret as part of another store's transaction."""
        session.add(self._row(reference, secret))

    async def shred(self, session: AsyncSession, prefix: str) -> None:
        """Remove every secret below a prefix such as `cluster/<uid>/`, likewise."""
        below = SecretRow.reference.startswith(prefix, autoescape=True)
        await session.execute(delete(SecretRow).where(below))

    def _row(self, reference: str, secret: bytes) -> SecretRow:
        sealed = self._seal.close(reference, secret)
        return SecretRow(
            reference=reference, sealed=sealed, sealed_with=self._seal.name, changed=now()
        )
