"""The one clock by which leases and waits are judged, whichever process reads or writes them.

On PostgreSQL it is the server's clock. On SQLite all processes run on one machine, and the clock is
that machine's monotonic time plus an offset, which the first process after a boot writes down: it
does not follow the wall clock when that is set. Times that people read, such as when a record was
made, are still those of the wall clock of the process that writes them."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from store.rows import ID, Row, now, table_of

FRESH_SECONDS = 1.0
"""How long PostgreSQL's clock is followed by monotonic time before it is asked again."""

STEP_SECONDS = 1.0
"""A clock that moves against monotonic time by more than this between two readings was set."""

BOOT = Path("/proc/sys/kernel/random/boot_id")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_KEY, _WRITES, _FRESH = "clock", "writes", "clock written"


class ClockRow(Row):
    """What is added to the machine's monotonic time since a boot to know the time. On SQLite only:
    PostgreSQL has a clock of its own."""

    __tablename__ = "clocks"

    boot: Mapped[str] = mapped_column(ID, primary_key=True)
    offset: Mapped[float]


class Reading(NamedTuple):
    """What the clock showed, and the monotonic times before and after it was asked."""

    moment: datetime
    before: float
    after: float

    def has_stepped(self, last: "Reading") -> bool:
        """Whether the clock was set since the last reading, or stood while this process ran."""
        least = _seconds(self.moment) - self.after - (_seconds(last.moment) - last.before)
        most = _seconds(self.moment) - self.before - (_seconds(last.moment) - last.after)
        return least > STEP_SECONDS or most < -STEP_SECONDS


class Clock:
    """The clock of one database, as one process reads it."""

    def __init__(self, *, is_sqlite: bool) -> None:
        self._is_sqlite = is_sqlite
        self._offset: float | None = None
        """The clock less monotonic time, in seconds."""
        self._read = 0.0

    def join(self, session: AsyncSession, *, writes: bool) -> None:
        """Be the clock of a session, for `moment`."""
        session.info.update({_KEY: self, _WRITES: writes})

    async def read(self, session: AsyncSession) -> Reading:
        """Ask the clock."""
        before = time.monotonic()
        if self._is_sqlite:
            offset = await self._anchored(session)
            return Reading(_moment(before + offset), before, before)
        shown = await session.scalar(select(func.clock_timestamp())) or now()
        after = time.monotonic()
        self._offset, self._read = _seconds(shown) - (before + after) / 2, after
        return Reading(shown.astimezone(UTC), before, after)

    async def moment(self, session: AsyncSession) -> datetime:
        """What time it is, asked less than a second ago."""
        passed = time.monotonic()
        if self._offset is None or (not self._is_sqlite and passed > self._read + FRESH_SECONDS):
            return (await self.read(session)).moment
        return _moment(passed + self._offset)

    async def _anchored(self, session: AsyncSession) -> float:
        if self._offset is not None:
            return self._offset
        if _FRESH in session.info:  # it counts only once it is committed
            written: float = session.info[_FRESH]
            return written
        boot, table = _boot(), table_of(ClockRow)
        kept: float | None = await session.scalar(
            select(table.c.offset).where(table.c.boot == boot)
        )
        if kept is not None:
            self._offset = kept
            return kept
        fresh = _seconds(now()) - time.monotonic()
        if session.info[_WRITES]:
            await session.execute(delete(table))
            await session.execute(insert(table).values(boot=boot, offset=fresh))
            session.info[_FRESH] = fresh
        return fresh


async def moment(session: AsyncSession) -> datetime:
    """What time it is by the clock of the session's database."""
    clock: Clock = session.info[_KEY]
    return await clock.moment(session)


def _seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()


def _moment(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def _boot() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:  # not Linux: the offset is kept for ever
        return ""
