"""The journal: what happened to each operation, in order, and following it live."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeAlias

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Failure, NotFound
from domain.operation import Event, OperationId, Stage, Step
from store.engine import Database, Store, reading
from store.patience import Accepted, read_patiently
from store.rows import JournalRow, OperationRow, now
from store.tail import Tail

LOOK_SECONDS = 1.0
"""How often a follower looks by itself: the most that a lost wake-up can cost."""

PAGE = 500

LINES = (
    *(JournalRow.operation, JournalRow.number, JournalRow.time, JournalRow.note, JournalRow.stage),
    *(JournalRow.step, JournalRow.failure, JournalRow.last, JournalRow.told),
)
"""What is read of a line. Plain columns: everybody who follows reads them again and again."""

Looked: TypeAlias = tuple[Sequence[Event], bool]
"""Some lines, and whether there will never be more."""


class Told(Protocol):
    """What a line says of its operation, and counts there."""

    id: str
    stage: str
    events: int
    heard: datetime


def line(
    row: Told,
    note: str,
    *,
    step: Step | None = None,
    failure: Failure | None = None,
    last: bool = False,
    told: bool = False,
) -> dict[str, Any]:
    """The next line, to be written in the transaction that changes the row. The row is locked by
    then, so numbers have no gaps and no line appears before an earlier one."""
    row.events += 1
    row.heard = now()
    return {
        "operation": row.id,
        "number": row.events,
        "time": row.heard,
        "note": note,
        "stage": row.stage,
        "step": step.model_dump_json() if step else "",
        "failure": failure.model_dump_json() if failure else "",
        "last": last,
        "told": told,
    }


def write(
    session: AsyncSession,
    row: OperationRow,
    note: str,
    *,
    failure: Failure | None = None,
    last: bool = False,
    told: bool = False,
) -> None:
    """Add the next line, in the transaction that changes the row."""
    session.add(JournalRow(**line(row, note, failure=failure, last=last, told=told)))


class Journal(Store):
    """Reads the journal. Lines are written by those who change the operation."""

    def __init__(self, database: Database, tail: Tail) -> None:
        super().__init__(database)
        self._tail = tail

    @reading
    async def since(
        self, session: AsyncSession, operation: OperationId, after: int
    ) -> Sequence[Event]:
        """Up to a page of lines with a number greater than `after`."""
        return (await _read(session, operation, after))[0]

    @reading
    async def ended(self, session: AsyncSession, operation: OperationId) -> bool:
        """Whether an operation's last line has been written."""
        row = await session.get(OperationRow, operation)
        return row is None or row.ended is not None

    @reading
    async def _look(self, session: AsyncSession, operation: OperationId, after: int) -> Looked:
        return await _read(session, operation, after)

    async def follow(
        self, operation: OperationId, *, after: int = 0, accepted: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Yield what happened past `after`, then what happens, until the operation has ended. Once
        the operation was read, or if it was `accepted` a moment ago, a database that does not
        answer is waited for."""
        begun = accepted
        with self._tail.watching(operation) as news:
            while True:
                news.clear()  # before reading, so that nothing falls between
                look = partial(self._look, operation, after)
                events, over = await (_patiently(operation, look) if begun else look())
                begun = True
                for event in events:
                    yield event
                    if event.last:
                        return
                    news.known = after = event.number
                if over:
                    return  # asked to begin past the last line
                if len(events) < PAGE:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), timeout=LOOK_SECONDS)


async def _patiently(operation: OperationId, look: Callable[[], Awaitable[Looked]]) -> Looked:
    accepted = Accepted(f"operation {operation}", f"windlass op watch {operation}")
    return await read_patiently(look, accepted)


async def _read(
    session: AsyncSession, operation: OperationId, after: int
) -> tuple[Sequence[Event], bool]:
    """Up to a page of lines with a number greater than `after`, and whether there will never be
    one."""
    rows = await session.execute(
        select(*LINES)
        .where(JournalRow.operation == operation, JournalRow.number > after)
        .order_by(JournalRow.number)
        .limit(PAGE)
    )
    events = [_event(row) for row in rows]
    if events:
        return events, False
    stands = select(OperationRow.ended, OperationRow.events).where(OperationRow.id == operation)
    row = (await session.execute(stands)).one_or_none()
    if row is None:
        raise NotFound(f"there is no operation {operation}", subject=operation)
    return (), row.ended is not None and row.events <= after


def _event(row: Row[*tuple[Any, ...]]) -> Event:
    return Event(
        operation=OperationId(row.operation),
        number=row.number,
        time=row.time,
        note=row.note,
        step=Step.model_validate_json(row.step) if row.step else None,
        stage=Stage(row.stage),
        failure=Failure.model_validate_json(row.failure) if row.failure else None,
        last=row.last,
        told=row.told,
    )
