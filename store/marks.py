"""The hands' own lines: what each step did, written down before the hand goes on.

A hand marks that it begins before it touches anything, which is also where a leftover of an
operation that is over finds out; and that it ended before it reports to Temporal, so a step that
Temporal knows as done is never unknown here. Marks that come together share a transaction.

Every step waits for this twice, so tables are written here and not rows: few statements, and as
many for one mark as for a hundred."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, bindparam, case, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from domain.errors import Conflict
from domain.machine import UNMOVED, Sighting, SlotPhase, filled
from domain.operation import PAUSED, STALE, STOPPED, Mark, Stage, Step, StepState
from domain.ports import host_keys
from store import journal
from store.engine import Database, Store, transaction
from store.gather import Gather
from store.operations import MESSAGE_LENGTH
from store.rows import (
    ClusterRow,
    JournalRow,
    OperationRow,
    SecretRow,
    SlotRow,
    StepRow,
    below,
    now,
    table_of,
)

STATES = {
    Sighting.BEGAN: StepState.ACTIVE,
    Sighting.ENDED: StepState.DONE,
    Sighting.STUMBLED: StepState.STUMBLED,
}

RELEASING = "Releasing"
"""What MAAS calls a machine from the moment on when it is told to take it back."""

OF_MACHINE = ("system_id", "hostname", "address", "status", "kubelet", "node", "machine")
"""What a slot says of the machine in it."""

NOTE_LENGTH = 500


@dataclass
class _Operation:
    """What marks read and change of their operation. Its plan, which may be long, they leave."""

    id: str
    cluster: str
    kind: str
    stage: str
    ended: datetime | None
    paused_by: str
    cancel_requested: bool
    waiting_on: str
    headline: str
    steps: int
    steps_done: int
    events: int
    heard: datetime


@dataclass
class _Step:
    """The row of a step."""

    operation: str
    key: str
    verb: str
    state: str
    started: datetime
    ended: datetime | None = None
    seconds: float | None = None
    attempts: int = 0
    note: str = ""


OPERATIONS, CLUSTERS, SLOTS = table_of(OperationRow), table_of(ClusterRow), table_of(SlotRow)
STEPS, JOURNAL, SECRETS = table_of(StepRow), table_of(JournalRow), table_of(SecretRow)


OF_STEP = ("state", "ended", "seconds", "attempts", "note")
OF_OPERATION = ("waiting_on", "steps_done", "events", "heard")

BEGIN_STEPS, WRITE_LINES = insert(STEPS), insert(JOURNAL)
MOVE_STEPS = update(STEPS).where(
    STEPS.c.operation == bindparam("whose"), STEPS.c.key == bindparam("which")
)
MOVE_OPERATIONS = update(OPERATIONS).where(OPERATIONS.c.id == bindparam("which"))
SAY = update(CLUSTERS).where(
    CLUSTERS.c.uid == bindparam("which"), CLUSTERS.c.operation == bindparam("whose")
)
"""Says on the cluster how far its operation has come; never on one that is another's by now."""


class Marks(Store):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._gather = Gather[Mark, None](self._write)

    async def make(self, mark: Mark) -> None:
        """Write a mark down. Conflict if its operation is over or no longer has the right."""
        await self._gather.ask(mark)

    @transaction
    async def _write(
        self, session: AsyncSession, marks: Sequence[Mark]
    ) -> Sequence[Exception | None]:
        connection = await session.connection()
        operations = await _operations(connection, marks)
        page = _Page(operations, await _steps(connection, marks))
        answers = [page.note(mark) for mark in marks]
        await self._database.hold(session)
        await page.write(connection)
        return answers


async def _operations(connection: AsyncConnection, marks: Sequence[Mark]) -> dict[str, _Operation]:
    """The operations marks are made for, held against every other writer, in one order."""
    columns = (OPERATIONS.c[name] for name in _Operation.__annotations__)
    wanted = OPERATIONS.c.id.in_({mark.operation for mark in marks})
    query = select(*columns).where(wanted).order_by(OPERATIONS.c.id).with_for_update()
    return {row.id: _Operation(*row) for row in await connection.execute(query)}


async def _steps(
    connection: AsyncConnection, marks: Sequence[Mark]
) -> dict[tuple[str, str], _Step]:
    """The steps so far. Asked for apart, so that what the lock was waited for is seen."""
    columns = (STEPS.c[name] for name in _Step.__annotations__)
    query = select(*columns).where(
        STEPS.c.operation.in_({mark.operation for mark in marks}),
        STEPS.c.key.in_({str(mark.step) for mark in marks}),
    )
    return {(row.operation, row.key): _Step(*row) for row in await connection.execute(query)}


class _Page:
    """What the marks of one transaction find, and what they leave behind."""

    def __init__(
        self, operations: Mapping[str, _Operation], steps: dict[tuple[str, str], _Step]
    ) -> None:
        self._operations = operations
        self._steps = steps
        self._begun: list[_Step] = []
        self._moved: dict[tuple[str, str], _Step] = {}
        self._lines: list[dict[str, Any]] = []
        self._latest: dict[str, str] = {}
        self._slots: dict[tuple[str, str], dict[str, Any]] = {}

    def note(self, mark: Mark) -> Conflict | None:
        """Take a mark in, or say why it may not be made."""
        operation = self._operations.get(mark.operation)
        if operation is None or operation.ended is not None:
            return _stale(mark, "is over")
        begins = mark.sighting is Sighting.BEGAN and not mark.step.undo
        if begins and operation.stage != Stage.RUNNING:
            return _stale(mark, f"is {operation.stage}")
        if begins and (why := _rests(operation)) and not self._is_known(mark):
            return _refused(mark, why, reason=PAUSED)
        step = self._step(mark)
        if mark.attempt < step.attempts:  # Temporal has given that attempt up
            late = mark.sighting is Sighting.BEGAN
            return _stale(mark, "has gone on with a later attempt") if late else None
        _move(step, mark, operation)
        told = Step(
            key=mark.step,
            state=STATES[mark.sighting],
            started=step.started,
            ended=step.ended,
            attempts=step.attempts,
            note=step.note,
            done=step.seconds is not None,
        )
        self._latest[operation.id] = saying = _saying(mark)
        self._lines.append(journal.line(operation, saying, step=told))
        if changes := _of_slot(mark):
            self._slots.setdefault((operation.cluster, mark.step.subject), {}).update(changes)
        return None

    def _is_known(self, mark: Mark) -> bool:
        """Whether the step has begun before: then it may end, in however many attempts."""
        return (mark.operation, str(mark.step)) in self._steps

    def _step(self, mark: Mark) -> _Step:
        key = (mark.operation, str(mark.step))
        if key in self._steps:
            self._moved[key] = self._steps[key]
        else:
            step = _Step(*key, verb=mark.step.verb, state=StepState.PENDING, started=now())
            self._steps[key] = step
            self._begun.append(step)
        return self._steps[key]

    async def write(self, connection: AsyncConnection) -> None:
        """Write everything down. No statement has an answer that anybody would read."""
        operations = [self._operations[name] for name in self._latest]
        await _each(connection, BEGIN_STEPS, [vars(step) for step in self._begun])
        await _each(
            connection,
            MOVE_STEPS,
            [
                {"whose": step.operation, "which": step.key, **_some(step, OF_STEP)}
                for step in self._moved.values()
            ],
        )
        await _each(connection, WRITE_LINES, self._lines)
        await _each(
            connection,
            MOVE_OPERATIONS,
            [{"which": row.id, **_some(row, OF_OPERATION)} for row in operations],
        )
        await _each(
            connection,
            SAY,
            [
                {"which": row.cluster, "whose": row.id, "message": _message(row, saying)}
                for row, saying in zip(operations, self._latest.values(), strict=True)
            ],
        )
        for (cluster, name), changes in self._slots.items():
            filling = update(SLOTS).where(SLOTS.c.cluster == cluster, SLOTS.c.name == name)
            await connection.execute(filling.values(changes))
            if changes.get("phase") is SlotPhase.RELEASED:
                await connection.execute(_forget_host(cluster, name))


def _forget_host(cluster: str, name: str) -> Executable:
    """The host key that was pinned goes with the system that showed it. The slot may be filled
    again, and by the same machine: installed anew, it has another."""
    return delete(SECRETS).where(below(SECRETS.c.reference, host_keys(cluster, name)))


def _some(row: _Step | _Operation, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


async def _each(
    connection: AsyncConnection, statement: Executable, rows: Sequence[Mapping[str, Any]]
) -> None:
    if rows:
        await connection.execute(statement, rows)


def _rests(operation: _Operation) -> str:
    """Why no step may begin; empty if one may. Whoever is called off hears of it from Temporal,
    and that may be a moment later."""
    if operation.cancel_requested:
        return "is being called off"
    return f"is paused by {operation.paused_by}" if operation.paused_by else ""


def _stale(mark: Mark, why: str) -> Conflict:
    return _refused(mark, why, reason=STALE)


def _refused(mark: Mark, why: str, *, reason: str) -> Conflict:
    return Conflict(
        f"{mark.step}: operation {mark.operation} {why}", subject=mark.operation, reason=reason
    )


def _move(step: _Step, mark: Mark, operation: _Operation) -> None:
    moment = now()
    if mark.sighting is Sighting.ENDED and step.seconds is None:  # its answer may be lost: once
        operation.steps_done += 0 if mark.step.undo else 1
        step.seconds = (moment - step.started).total_seconds()
    step.state = STATES[mark.sighting]
    step.attempts = mark.attempt
    step.note = mark.note[:NOTE_LENGTH]
    step.ended = None if mark.sighting is Sighting.BEGAN else moment
    operation.waiting_on = _waiting_on(mark, operation.waiting_on)


def _waiting_on(mark: Mark, now_on: str) -> str:
    """What the operation waits for, from the first time that a step stumbles and is tried again.
    A step that is given up is waited for no longer, nor one that another at its subject follows:
    Temporal ends some without a mark."""
    over = mark.sighting is Sighting.ENDED or mark.final or mark.last
    if mark.sighting is Sighting.STUMBLED and not over and mark.note != STOPPED:
        return f"{mark.step}: {mark.note[:NOTE_LENGTH]}"
    same = now_on.startswith(f"{mark.step}: ")
    follows = mark.sighting is Sighting.BEGAN and not same and _subject(now_on) == mark.step.subject
    return "" if follows or (over and same) else now_on


def _subject(waiting_on: str) -> str:
    """What the step is done to that is waited for. Empty: it is no step."""
    words = waiting_on.partition(": ")[0].removeprefix("undo ").split(" ")
    return words[1] if len(words) > 1 and "." in words[0] else ""


def _saying(mark: Mark) -> str:
    tries = f" (attempt {mark.attempt})" if mark.attempt > 1 else ""
    why = f": {mark.note[:NOTE_LENGTH]}" if mark.note else ""
    return f"{mark.step} {mark.sighting}{tries}{why}"


def _message(operation: _Operation, saying: str) -> str:
    kind = operation.kind.removesuffix("-cluster")
    done = min(operation.steps_done, operation.steps)  # the unforeseen has been done besides
    headline = operation.headline or f"{kind}: {done}/{operation.steps} steps"
    held = f"paused by {operation.paused_by}; " if operation.paused_by else ""
    return f"{headline}; {held}{saying} (op {operation.id})"[:MESSAGE_LENGTH]


def _of_slot(mark: Mark) -> dict[str, Any]:
    """What a mark says of the slot it is about; most say nothing."""
    changes: dict[str, Any] = {}
    phase = filled(mark.step.verb, mark.sighting, final=mark.final)
    if mark.learnt is not None:
        changes |= mark.learnt.model_dump(include={"system_id", "hostname", "address", "status"})
    if mark.status:
        changes["status"] = mark.status
    if mark.kubelet:
        changes["kubelet"] = mark.kubelet
    if phase is SlotPhase.RELEASING:
        changes["status"] = RELEASING
    if phase is SlotPhase.RELEASED:
        changes |= dict.fromkeys(OF_MACHINE, "")
    if phase is not None:
        changes["phase"] = phase
        if stays := UNMOVED.get((mark.step.verb, mark.sighting)):
            changes["phase"] = case((SLOTS.c.phase.in_(stays), SLOTS.c.phase), else_=phase)
    return {**changes, "changed": now()} if changes else changes
