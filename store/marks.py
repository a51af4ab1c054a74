"""The hands' own lines: what each step did, written down before the hand goes on.

A hand marks that it begins before it touches anything, which is also where a leftover of an
operation that is over finds out; and that it ended before it reports to Temporal, so a step that
Temporal knows as done is never unknown here. Marks that come together share a transaction."""

from collections.abc import Sequence

from sqlalchemy import select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Conflict, DomainError
from domain.machine import Sighting, SlotPhase, filled
from domain.operation import STALE, Mark, Stage, StepState
from store import journal
from store.engine import Database, Store, transaction
from store.gather import Gather
from store.operations import as_step
from store.rows import ClusterRow, OperationRow, SlotRow, StepRow, now

STATES = {
    Sighting.BEGAN: StepState.ACTIVE,
    Sighting.ENDED: StepState.DONE,
    Sighting.STUMBLED: StepState.STUMBLED,
}

WORTH_SAYING = 5
"""After so many failed attempts at one step, its operation waits for something."""

MESSAGE_LENGTH = 1000
NOTE_LENGTH = 500


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
        ids = sorted({mark.operation for mark in marks})
        query = select(OperationRow).where(OperationRow.id.in_(ids)).order_by(OperationRow.id)
        operations = {row.id: row for row in await session.scalars(query.with_for_update())}
        steps = await self._steps(session, marks)
        slots = await self._slots(session, marks, operations)
        answers: list[Exception | None] = []
        latest: dict[str, str] = {}
        for mark in marks:
            try:
                row = _entitled(mark, operations.get(mark.operation))
            except DomainError as error:
                answers.append(error)
                continue
            answers.append(None)
            if _note_step(session, mark, row, steps):
                _note_slot(mark, row, slots)
                latest[row.id] = _saying(mark)
        for operation, saying in latest.items():
            await _note_cluster(session, operations[operation], saying)
        return answers

    async def _steps(
        self, session: AsyncSession, marks: Sequence[Mark]
    ) -> dict[tuple[str, str], StepRow]:
        wanted = {(str(mark.operation), str(mark.step)) for mark in marks}
        found = await session.scalars(
            select(StepRow).where(tuple_(StepRow.operation, StepRow.key).in_(wanted))
        )
        return {(row.operation, row.key): row for row in found}

    async def _slots(
        self, session: AsyncSession, marks: Sequence[Mark], operations: dict[str, OperationRow]
    ) -> dict[tuple[str, str], SlotRow]:
        wanted = {
            (operations[mark.operation].cluster, mark.step.subject)
            for mark in marks
            if mark.operation in operations
        }
        found = await session.scalars(
            select(SlotRow).where(tuple_(SlotRow.cluster, SlotRow.name).in_(wanted))
        )
        return {(row.cluster, row.name): row for row in found}


def _entitled(mark: Mark, row: OperationRow | None) -> OperationRow:
    """The operation's row, if this mark may still be made for it."""
    if row is None or row.ended is not None:
        raise _stale(mark, "is over")
    if mark.sighting is Sighting.BEGAN and not mark.step.undo and row.stage != Stage.RUNNING:
        raise _stale(mark, f"is {row.stage}")
    return row


def _stale(mark: Mark, why: str) -> Conflict:
    return Conflict(
        f"{mark.step}: operation {mark.operation} {why}",
        subject=mark.operation,
        reason=STALE,
    )


def _note_step(
    session: AsyncSession, mark: Mark, row: OperationRow, steps: dict[tuple[str, str], StepRow]
) -> bool:
    """False if the mark comes too late to be noted: a later attempt has spoken."""
    moment = now()
    step = steps.get((mark.operation, str(mark.step)))
    if step is None:
        step = StepRow(
            operation=mark.operation,
            key=str(mark.step),
            verb=mark.step.verb,
            state=StepState.ACTIVE,
            started=moment,
            ended=None,
            seconds=None,
            attempts=0,
            note="",
        )
        session.add(step)
        steps[mark.operation, str(mark.step)] = step
    if mark.attempt < step.attempts:
        return False  # an attempt that Temporal has given up speaks last
    if mark.sighting is Sighting.ENDED and step.seconds is None:  # its answer may be lost: once
        row.steps_done += 0 if mark.step.undo else 1
        step.seconds = (moment - step.started).total_seconds()
    step.state = STATES[mark.sighting]
    step.attempts = mark.attempt
    step.note = mark.note[:NOTE_LENGTH]
    step.ended = None if mark.sighting is Sighting.BEGAN else moment
    row.waiting_on = _waiting_on(mark, row.waiting_on)
    journal.write(session, row, _saying(mark), step=as_step(step))
    return True


def _waiting_on(mark: Mark, now_on: str) -> str:
    """What the operation waits for, once a step has stumbled often enough to be worth saying."""
    if mark.sighting is Sighting.STUMBLED and mark.attempt >= WORTH_SAYING and not mark.final:
        return f"{mark.step}: {mark.note[:NOTE_LENGTH]}"
    over = mark.sighting is Sighting.ENDED or mark.final
    return "" if over and now_on.startswith(f"{mark.step}: ") else now_on


def _saying(mark: Mark) -> str:
    tries = f" (attempt {mark.attempt})" if mark.attempt > 1 else ""
    why = f": {mark.note[:NOTE_LENGTH]}" if mark.note else ""
    return f"{mark.step} {mark.sighting}{tries}{why}"


def _note_slot(mark: Mark, row: OperationRow, slots: dict[tuple[str, str], SlotRow]) -> None:
    slot = slots.get((row.cluster, mark.step.subject))
    if slot is None:
        return
    phase = filled(SlotPhase(slot.phase), mark.step.verb, mark.sighting, final=mark.final)
    if mark.learnt is not None:
        slot.system_id = mark.learnt.system_id
        slot.hostname = mark.learnt.hostname
        slot.address = mark.learnt.address
        slot.status = mark.learnt.status
    if mark.status:
        slot.status = mark.status
    if mark.kubelet:
        slot.kubelet = mark.kubelet
    if phase is SlotPhase.RELEASED:
        slot.system_id = slot.hostname = slot.address = slot.status = slot.kubelet = ""
    if phase != slot.phase or mark.learnt is not None:
        slot.changed = now()
    slot.phase = phase


async def _note_cluster(session: AsyncSession, row: OperationRow, saying: str) -> None:
    """Say on the cluster how far its operation has come; never on one that is another's by now."""
    kind = row.kind.removesuffix("-cluster")
    done = min(row.steps_done, row.steps)  # what was not foreseen has been done besides
    message = f"{kind}: {done}/{row.steps} steps; {saying} (op {row.id})"
    await session.execute(
        update(ClusterRow)
        .where(ClusterRow.uid == row.cluster, ClusterRow.operation == row.id)
        .values(message=message[:MESSAGE_LENGTH])
    )
