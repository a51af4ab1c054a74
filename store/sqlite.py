"""SQLite with few trips to its thread.

The library under it makes four for a statement that reads: for the cursor, the statement, its rows
and the cursor's end. SQLite is done in microseconds; what takes time is that after each trip the
loop must come round again, and it may be busy. Here a statement is one trip, a BEGIN goes with the
statement that follows it, and a transaction that only writes any more is one trip to its end."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import aiosqlite

Work: TypeAlias = Callable[[sqlite3.Connection], object]


class Connection(aiosqlite.Connection):
    """A connection that is told by `begin` of each transaction."""

    def __init__(self, path: str) -> None:
        super().__init__(lambda: sqlite3.connect(path), iter_chunk_size=1)
        self._thread.daemon = True  # a process that ends waits for no connection
        self.holds = self._is_open = self._reads = False
        self._ahead: list[Work] = []
        """What goes with the next trip."""

    def begin(self, *, writes: bool) -> None:
        """Begin a transaction with the next statement; one that writes takes the write lock."""
        how = "BEGIN IMMEDIATE" if writes else "BEGIN"
        self._ahead = [lambda raw: raw.execute(how)]
        self._is_open, self._reads, self.holds = True, not writes, False

    def hold(self) -> None:
        """Keep what follows until the commit, which then does all of it, or fails with it. Nothing
        that follows may have an answer."""
        self.holds = True

    def cursor(self) -> "Cursor":  # type: ignore[override]
        return Cursor(self)

    async def carry_out(self, work: Work) -> None:
        """Do something on the connection's thread, now or with the commit."""
        if self.holds:
            self._ahead.append(work)
        else:
            await self._trip(work)

    async def commit(self) -> None:
        if self._reads and not self._ahead:
            self._tx.put_nowait((None, self._conn.commit))  # it cannot fail: who would wait for it
        elif self._is_open:
            await self._trip(sqlite3.Connection.commit)
        self._is_open = self.holds = False

    async def rollback(self) -> None:
        """Nothing to do after a commit, which is when the pool asks for it as a rule."""
        self._ahead = []
        if self._is_open:
            await super().rollback()
        self._is_open = self.holds = False

    async def _trip(self, work: Work) -> None:
        ahead, self._ahead = self._ahead, []
        await self._execute(_carry_out, self._conn, [*ahead, work])  # type: ignore[no-untyped-call]


class Cursor:
    """One statement at a time, and all its rows at once."""

    description: Any = None
    rowcount = -1
    lastrowid: int | None = None
    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Self:
        await self._connection.carry_out(lambda raw: self._take(raw.execute(statement, parameters)))
        return self

    async def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> Self:
        await self._connection.carry_out(
            lambda raw: self._take(raw.executemany(statement, parameters))
        )
        return self

    async def fetchall(self) -> list[Any]:
        return self._rows

    async def close(self) -> None:
        """It has been closed on the way."""

    def _take(self, told: sqlite3.Cursor) -> None:
        if self._connection.holds and told.description is not None:
            raise sqlite3.ProgrammingError("a statement was held back whose answer somebody wants")
        self.description, self._rows = told.description, told.fetchall()
        self.rowcount, self.lastrowid = told.rowcount, told.lastrowid
        told.close()


def _carry_out(raw: sqlite3.Connection, works: Sequence[Work]) -> None:
    for work in works:
        work(raw)
