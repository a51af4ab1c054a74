"""One database under all stores, SQLite or PostgreSQL, and what a transaction promises on it.

SQLite runs in WAL mode and takes its write lock at the start of a transaction (BEGIN IMMEDIATE),
so a transaction that has begun can only fail by its own doing. PostgreSQL runs READ COMMITTED:
each writing method first locks the row that decides (the operation, the cluster), and unique
indexes decide between two that create the same thing. Either way the loser's method is run again
and sees the winner's row, which is safe, since a method does nothing but this one transaction."""

import asyncio
import functools
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from domain.disk import trouble
from domain.errors import Invalid, Unavailable
from store import rehearsal
from store.clock import Clock
from store.sqlite import Connection
from store.visibility import APPLICATION

TRIES = 8
"""How often a colliding transaction is run before its error is the caller's."""

FIRST_PAUSE_SECONDS = 0.005
ANSWER_SECONDS = 15.0
"""How long one transaction on PostgreSQL may take, the wait for a connection included. A server
that hangs answers nothing and closes nothing, so nobody else would end it."""

BUSY_TIMEOUT_MS = 10_000
"""How long SQLite waits for another process's write before it says that the file is busy."""

DRIVERS = ("sqlite+aiosqlite", "postgresql+asyncpg")

COLLISIONS = frozenset({"40001", "40P01", "55P03", sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""PostgreSQL's serialisation failure, deadlock and lock not available; SQLite's busy file."""

OPERATIONS_PER_USER = "operations per user"
"""Where a session keeps how many may run."""

AWAY = frozenset(
    {
        "25006",
        *("08", "28", "3D", "53", "57P", "58"),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB),
    }
)
"""What is no fault of the statement. PostgreSQL's classes: connection, password, no such database,
out of resources, starting or stopping, its disk, and one that is read-only; SQLite's: the file
cannot be read or written."""


UNKEPT = frozenset({"22021", "22P05"})
"""PostgreSQL's character not in its repertoire: whoever asks has sent what cannot be written."""


class Database:
    """A database by its URL: `sqlite+aiosqlite:///path` or `postgresql+asyncpg://…`."""

    def __init__(
        self,
        url: str,
        *,
        connections: int = 8,
        answer_seconds: float | None = ANSWER_SECONDS,
        operations_per_user: int | None = None,
    ) -> None:
        """`answer_seconds`: what a transaction on PostgreSQL may take. None: as long as it does.
        `operations_per_user`: as many may run. None: any number."""
        self._operations_per_user = operations_per_user
        self.url = _address(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.answer_seconds = None if self.is_sqlite else answer_seconds
        options: dict[str, Any] = {"pool_size": connections, "max_overflow": 0, "pool_timeout": 10}
        if self.is_sqlite:
            path = self.url.database or ":memory:"
            options["async_creator"] = lambda: Connection(path)
            options["pool_use_lifo"] = True  # the connection used last has its pages in memory
        else:
            options["pool_pre_ping"] = True
            options["connect_args"] = {"server_settings": {"application_name": APPLICATION}}
        self.engine = create_async_engine(self.url, **options)
        self._engines = {
            writes: self.engine.execution_options(writes=writes) for writes in (False, True)
        }
        self.clock = Clock(is_sqlite=self.is_sqlite)
        # One writer of this process at a time: SQLite's own waiting polls, a lock is handed over.
        self._writing = asyncio.Lock() if self.is_sqlite else None
        if self.is_sqlite:
            event.listen(self.engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(self.engine.sync_engine, "begin", _begin_sqlite)

    @asynccontextmanager
    async def session(self, *, writes: bool) -> AsyncIterator[AsyncSession]:
        """A transaction that commits if the block ends well."""
        async with self._writing if writes and self._writing else nullcontext():
            fresh = AsyncSession(self._engines[writes], expire_on_commit=False)
            self.clock.join(fresh, writes=writes)
            fresh.info[OPERATIONS_PER_USER] = self._operations_per_user
            async with fresh as session, session.begin():
                yield session

    async def hold(self, session: AsyncSession) -> None:
        """Promise that nothing follows in this transaction that has an answer, not even a count of
        rows. On SQLite all of it is then done with the commit."""
        if self.is_sqlite:
            raw: Any = await (await session.connection()).get_raw_connection()
            raw.driver_connection.hold()

    async def close(self) -> None:
        await self.engine.dispose()


def _address(url: str) -> URL:
    """The URL, which is never repeated in an error: it may hold a password."""
    try:
        address = make_url(url)
    except ArgumentError:
        address = None
    if address is None or address.drivername not in DRIVERS:
        raise Invalid(
            f"the database's URL begins with neither {DRIVERS[0]}:// nor {DRIVERS[1]}://",
            reason="DATABASE_URL_INVALID",
            do="set WINDLASS_DATABASE to sqlite+aiosqlite:///PATH "
            "or postgresql+asyncpg://USER:PASSWORD@HOST/NAME",
        )
    return address


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=wal",
        "synchronous=normal",
        "foreign_keys=on",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get("writes", True)
    connection.connection.driver_connection.begin(writes=writes)


class Store:
    """The part all stores share: a database to ask."""

    def __init__(self, database: Database) -> None:
        self._database = database


AnyStore = TypeVar("AnyStore", bound=Store)
Args = ParamSpec("Args")
Answer = TypeVar("Answer")

_Method = Callable[Concatenate[AnyStore, AsyncSession, Args], Awaitable[Answer]]
_Bound = Callable[Concatenate[AnyStore, Args], Coroutine[Any, Any, Answer]]


def transaction(method: _Method[AnyStore, Args, Answer]) -> _Bound[AnyStore, Args, Answer]:
    """Run a method as one writing transaction; run it again when two callers collided."""
    return _run(method, writes=True)


def reading(method: _Method[AnyStore, Args, Answer]) -> _Bound[AnyStore, Args, Answer]:
    """Run a method as one reading transaction: it sees one state of the rows and waits for
    nobody's write."""
    return _run(method, writes=False)


def _run(
    method: _Method[AnyStore, Args, Answer], *, writes: bool
) -> _Bound[AnyStore, Args, Answer]:
    @functools.wraps(method)
    async def run(self: AnyStore, /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        for attempt in range(1, TRIES + 1):
            try:
                async with (
                    asyncio.timeout(self._database.answer_seconds),
                    self._database.session(writes=writes) as session,
                ):
                    answer = await method(self, session, *args, **kwargs)
                    if writes and rehearsal.under_way():
                        await session.flush()
                        rehearsal.end_here()
                    return answer
            except DBAPIError as error:
                if not UNKEPT.isdisjoint(_codes(error)):
                    raise Invalid("a text holds a NUL, which cannot be kept") from error
                if not _collided(error) or attempt == TRIES:
                    if _gone(error):
                        raise _away(error) from error
                    raise
            except TimeoutError as error:
                raise _unanswered(self._database.answer_seconds) from error
            except (OSError, PoolTimeout) as error:
                raise _away(error) from error
            pause = FIRST_PAUSE_SECONDS * 2**attempt
            await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 (jitter, no secret)
        raise AssertionError("the last attempt returns or raises")

    return run


def _collided(error: DBAPIError) -> bool:
    return isinstance(error, IntegrityError) or not COLLISIONS.isdisjoint(_codes(error))


def _gone(error: DBAPIError) -> bool:
    """Whether the database is away, or busy for too long; a statement that is wrong is a bug and
    stays one."""
    if isinstance(error, InterfaceError) or error.connection_invalidated:
        return True
    return not (AWAY | COLLISIONS).isdisjoint(_codes(error))


def _codes(error: DBAPIError) -> set[str | int]:
    """The driver's code for an error, and the classes it belongs to."""
    state: str = getattr(error.orig, "sqlstate", None) or ""
    number: int = getattr(error.orig, "sqlite_errorcode", 0)
    return {state, state[:2], state[:3], number & 0xFF}


def _away(error: Exception) -> Unavailable:
    if (found := trouble(error, "the database")) is not None:
        return found
    return _unavailable(f"the database did not answer: {type(error).__name__}")


def _unanswered(seconds: float | None) -> Unavailable:
    """Whether its transaction was committed nobody knows."""
    within = f" within {seconds:g} s" if seconds else ": TimeoutError"
    return _unavailable(f"the database did not answer{within}")


def _unavailable(said: str) -> Unavailable:
    return Unavailable(
        said,
        reason="DATABASE_UNAVAILABLE",
        do="try again with the same request id; if it goes on, look at the database",
    )
