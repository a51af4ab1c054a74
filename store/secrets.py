"""Secrets at rest. They are asked for by reference, and only clients ask.

Which of our keys is used is a row like any other: the secret `CHOSEN` lies under it. Every process
looks there now and then (`follow`), so all use the same one soon after another was chosen."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import structlog
from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Conflict, DomainError, NotFound
from store.engine import Database, Store, reading, transaction
from store.rows import SecretRow, below, now
from store.sealing import Seal, Sealed

CHOSEN = "windlass/seal"
"""The secret that says by its key which one is used. Until there is one, every process uses the
first that it knows."""

FOLLOW_SECONDS = 5.0
SETTLE_SECONDS = 2.5 * FOLLOW_SECONDS
"""After so long every process that reaches the database uses the key that was chosen."""

BATCH = 200

log = structlog.get_logger()


class KeyUse(NamedTuple):
    """One of our keys, as far as secrets go."""

    name: str
    is_used: bool
    is_known: bool
    """Here, by this process."""
    secrets: int
    """How many lie under it."""


class Secrets(Store):
    """The vault of `domain.ports`, in our own database."""

    def __init__(self, database: Database, seal: Seal) -> None:
        super().__init__(database)
        self.seal = seal
        """What they are sealed with."""

    @transaction
    async def keep(self, session: AsyncSession, reference: str, secret: bytes) -> None:
        """Seal a secret, replacing what lay there."""
        row = await session.get(SecretRow, reference, with_for_update=True)
        if row is None:
            self.add(session, reference, secret)
        else:
            _lay(row, self.seal.close(reference, secret))
            row.changed = now()

    @transaction
    async def keep_first(self, session: AsyncSession, reference: str, secret: bytes) -> bytes:
        """Seal a secret unless there is one, and return the one that lies there now."""
        if row := await session.get(SecretRow, reference):
            return self.seal.open(reference, _sealed(row))
        self.add(session, reference, secret)
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
        return self.seal.open(reference, _sealed(row))

    @reading
    async def verify(self, session: AsyncSession) -> None:
        """Refuse to go on with a key that does not open what lies here, before anything is sealed
        with it: a lost key file must not be replaced by a new one unnoticed."""
        row = await session.get(SecretRow, CHOSEN) or await session.scalar(
            select(SecretRow).limit(1)
        )
        if row is None:
            return
        if row.sealed_with not in self.seal.names:
            await asyncio.to_thread(self.seal.reload)
        self.seal.open(row.reference, _sealed(row))
        if row.reference == CHOSEN:
            self.seal.use(row.sealed_with)

    async def follow(self) -> None:
        """Use the key that is chosen, whenever that is another, and know those that are added."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self.verify()
            except DomainError as error:
                log.warning("the key that is chosen cannot be used", error=error.message)

    def add(self, session: AsyncSession, reference: str, secret: bytes) -> None:
        """Seal a secret as part of another store's transaction."""
        row = SecretRow(reference=reference, changed=now())
        _lay(row, self.seal.close(reference, secret))
        session.add(row)

    async def shred(self, session: AsyncSession, prefix: str) -> None:
        """Remove every secret below a prefix such as `cluster/<uid>/`, likewise."""
        await session.execute(delete(SecretRow).where(below(SecretRow.reference, prefix)))

    async def rotate(self, name: str) -> AsyncIterator[int]:
        """Use another key, and put all that lies here under it. Tells how many secrets are left,
        again and again. Ended half way, it is asked for again."""
        await asyncio.to_thread(self.seal.reload)
        await self._choose(name)
        for settled in (False, True):
            if settled:  # what others sealed before they knew
                await asyncio.sleep(SETTLE_SECONDS)
            left = await self._left(name)
            while left:
                yield left
                await self._rewrap(name)
                left = await self._left(name)
        yield 0

    @reading
    async def keys(self, session: AsyncSession) -> Sequence[KeyUse]:
        """Our keys, those that are known here and those that something lies under."""
        under = select(SecretRow.sealed_with, func.count()).group_by(SecretRow.sealed_with)
        counts = {row[0]: int(row[1]) for row in await session.execute(under)}
        if chosen := await session.get(SecretRow, CHOSEN):
            counts[chosen.sealed_with] -= 1
        used = chosen.sealed_with if chosen else self.seal.name
        names = dict.fromkeys((*self.seal.names, *sorted(counts)))
        known = self.seal.names
        return [KeyUse(name, name == used, name in known, counts.get(name, 0)) for name in names]

    @transaction
    async def _choose(self, session: AsyncSession, name: str) -> None:
        self.seal.use(name)
        row = await session.get(SecretRow, CHOSEN, with_for_update=True)
        if row is None:
            self.add(session, CHOSEN, b"")
        else:
            _lay(row, self.seal.rewrap(CHOSEN, _sealed(row)))

    @reading
    async def _left(self, session: AsyncSession, name: str) -> int:
        others = select(func.count()).select_from(SecretRow).where(SecretRow.sealed_with != name)
        return await session.scalar(others) or 0

    @transaction
    async def _rewrap(self, session: AsyncSession, name: str) -> None:
        """Put some more under this key. Whoever keeps a secret waits, or is waited for."""
        chosen = await session.get(SecretRow, CHOSEN)
        if chosen is None or chosen.sealed_with != name:
            raise Conflict(
                f"another key than {name} was chosen meanwhile",
                subject=name,
                reason="SEAL_KEY_REPLACED",
                do="windlass secrets keys shows which one; ask for it again to have this one",
            )
        self.seal.use(name)
        others = select(SecretRow).where(SecretRow.sealed_with != name)
        ordered = others.order_by(SecretRow.reference).limit(BATCH).with_for_update()
        for row in await session.scalars(ordered):
            _lay(row, self.seal.rewrap(row.reference, _sealed(row)))


def _sealed(row: SecretRow) -> Sealed:
    return Sealed(row.sealed_with, row.wrapped, row.sealed)


def _lay(row: SecretRow, sealed: Sealed) -> None:
    row.sealed_with, row.wrapped, row.sealed = sealed
