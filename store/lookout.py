"""Looks out for changes of records, for all in this process who follow them.

On PostgreSQL whoever writes tells; what was told of may not be shown yet, since an older
transaction is open, so there is looking for a while afterwards. On SQLite there is looking only."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from domain.errors import DomainError
from store.changes import CHANNEL, Change, Changes, Place
from store.engine import Database

TICK_SECONDS = 0.05
"""Between two looks while there may be something to see."""

LOOK_SECONDS = 1.0
"""Between two looks when nobody has told of anything: what a word that got lost can cost."""

AGAIN_SECONDS = 2.0
"""Before an ear that was cut off is put to the database again."""

log = structlog.get_logger()


class Lookout:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes = Changes(database)

    async def place(self) -> Place:
        """Where one begins to follow who is about to read everything."""
        return await self._changes.newest()

    async def follow(self, place: Place) -> AsyncGenerator[Sequence[Change], None]:
        """What is changed past a place, in order, for ever. While the database does not answer
        nothing comes, and nothing is left out afterwards."""
        ear = _Ear(self._database)
        listening = asyncio.create_task(ear.listen())
        try:
            while True:
                ear.told.clear()  # before reading, so that nothing falls between
                try:
                    found = await self._changes.since(place)
                except DomainError as error:
                    log.warning("changes not read", error=error.message)
                    found = ()
                if found:
                    place = found[-1].place
                    yield found
                else:
                    await ear.wait()
        finally:
            listening.cancel()
            await asyncio.wait([listening])


class _Ear:
    """Hears that something has been committed, if the database tells."""

    def __init__(self, database: Database) -> None:
        self.told = asyncio.Event()
        self._database = database
        self._hears = False
        self._until = 0.0

    async def wait(self) -> None:
        """Wait as long as makes sense before the next look."""
        quiet = self._hears and asyncio.get_running_loop().time() > self._until
        with suppress(TimeoutError):
            pause = LOOK_SECONDS if quiet else TICK_SECONDS
            await asyncio.wait_for(self.told.wait(), timeout=pause)

    async def listen(self) -> None:
        """Listen until cancelled. Without an ear there is looking, so nothing is lost by it."""
        if self._database.is_sqlite:
            return
        while True:
            engine = create_async_engine(self._database.url, poolclass=NullPool)
            try:
                await self._listen(engine)
            except (SQLAlchemyError, OSError) as error:
                log.warning("changes not listened for", error=type(error).__name__)
            finally:
                self._hears = False
                await engine.dispose()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self, engine: AsyncEngine) -> None:
        """Listen until the connection is lost."""
        lost = asyncio.Event()
        async with engine.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            raw.add_termination_listener(lambda _: lost.set())
            await raw.add_listener(CHANNEL, self._tell)
            self._hears = True
            await lost.wait()

    def _tell(self, *_: object) -> None:
        self._until = asyncio.get_running_loop().time() + LOOK_SECONDS
        self.told.set()
