"""A claim on an address: that one process at a time serves as it, for as long as it lives.

What dies with its process holds it, so that whoever comes back at an address need not wait for a
lease to end: on PostgreSQL a lock of a session of its own, on SQLite a lock on a file beside the
database."""

import asyncio
import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from domain.errors import Unavailable
from store.engine import Database
from store.visibility import APPLICATION

ANSWER_SECONDS = 5.0
"""How long PostgreSQL may take to connect, or to answer."""

_LOCK = text("SELECT pg_try_advisory_lock(hashtextextended('windlass address ' || :address, 0))")

KEPT_ALIVE = {
    "application_name": APPLICATION,
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
"""A machine that vanishes is found out by the server within seconds."""


class Claim:
    def __init__(self, database: Database, address: str) -> None:
        self.address = address
        self._database = database
        self._file: int | None = None
        self._engine: AsyncEngine | None = None
        self._connection: AsyncConnection | None = None
        self._lost = False

    async def take(self) -> bool:
        """Hold the claim, or go on holding it. False: another process does. Unavailable: the
        database does not answer."""
        if self._database.is_sqlite:
            return self._file is not None or self._locked()
        if self._connection is not None and not self._lost:
            return True
        await self.release()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._connect()
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            await self.release()
            raise Unavailable(
                f"the database did not say who serves as {self.address}: {type(error).__name__}",
                subject=self.address,
                reason="DATABASE_UNAVAILABLE",
                do="look at the database; it is asked again",
            ) from error

    async def release(self) -> None:
        """Let others have it. Having none is success."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        connection, engine = self._connection, self._engine
        self._connection = self._engine = None
        with suppress(SQLAlchemyError, OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                if connection is not None:
                    await connection.close()
        if engine is not None:
            await engine.dispose()

    def _locked(self) -> bool:
        database = self._database.url.database or ":memory:"
        if database == ":memory:":
            return True
        name = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        path = Path(f"{database}.api-{name}.lock")
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(
                f"the lock {path} cannot be taken: {error.strerror}",
                subject=self.address,
                reason="DATABASE_UNAVAILABLE",
                do=f"make {path.parent} writable for this user",
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    async def _connect(self) -> bool:
        self._lost = False
        self._engine = create_async_engine(
            self._database.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"server_settings": KEPT_ALIVE},
        )
        self._connection = await self._engine.connect()
        raw: Any = (await self._connection.get_raw_connection()).driver_connection
        raw.add_termination_listener(self._lose)
        held = await self._connection.scalar(_LOCK, {"address": self.address})
        if not held:
            await self.release()
        return bool(held)

    def _lose(self, _: object) -> None:
        self._lost = True
