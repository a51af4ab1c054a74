"""Operations: recorded with what they change, marked by the hands, ended by their workflow.

Every write for an operation names it. One that has ended, or whose place another has taken, is
refused: whoever still writes for it is a leftover of a crash."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, case, delete, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import ClusterPlan
from domain.errors import Conflict, Failure, Invalid, NotFound
from domain.machine import SlotState
from domain.operation import (
    ACTIVE,
    NEEDS_A_PERSON,
    Ask,
    Backlog,
    Brief,
    Kind,
    Operation,
    OperationId,
    Reached,
    Stage,
    Step,
)
from domain.outline import Leg, keys, outline, read
from domain.wishes import KEEP, refuse_wishes
from store import forgetting, journal, recording, rehearsal, slots, steps
from store.engine import Store, reading, transaction
from store.operation_reading import KINDS, SET_ASIDE, hold_readable
from store.operation_reading import as_operation as as_operation
from store.rows import AnswerRow, OperationRow, StepRow, now

UNDER_WAY = (
    OperationRow.stage.in_((Stage.RUNNING, Stage.SUPERSEDED)),
    OperationRow.ended.is_(None),
)
"""What was taken up and has not ended, said as the index has it."""

MESSAGE_LENGTH = 1000

HELD = "operations held"
"""Where a session keeps them."""


def record(
    session: AsyncSession,
    operation: OperationId,
    kind: Kind,
    subject: str,
    plan: ClusterPlan,
    ask: Ask,
    *,
    supersedes: OperationId | None = None,
) -> OperationRow:
    """Write down an accepted change, the caller's key and the journal's first line. The caller's
    transaction writes the object too: all of them are there, or none."""
    refuse_wishes(kind, ask)
    heeded = {"approve_each": ask.approve_each, "forced": ask.force, "keeps_data": ask.data == KEEP}
    plan = plan.model_copy(update=heeded)
    if (trial := rehearsal.under_way()) is not None:
        trial.accepted = rehearsal.Accepted(kind, subject, plan)
    return recording.write(
        session,
        operation,
        kind,
        subject,
        plan.model_dump_json(),
        ask,
        cluster=plan.uid,
        steps=len(keys(outline(kind, plan))),
        headline=plan.upgrade.headline(0) if plan.upgrade else "",
        supersedes=supersedes,
    )


async def locked(session: AsyncSession, operation: str) -> OperationRow:
    """The row, held against every other writer until the transaction ends."""
    row = await held(session, operation)
    if row is None:
        raise _unknown(operation)
    return row


async def held(session: AsyncSession, operation: str) -> OperationRow | None:
    """The same, if there is one. What the transaction holds already is not read again: nobody else
    can have changed it."""
    mine: dict[str, OperationRow] = session.info.setdefault(HELD, {})
    if operation not in mine:
        row = await session.get(OperationRow, operation, with_for_update=True)
        if row is None:
            return None
        mine[operation] = row
    return mine[operation]


async def _known(session: AsyncSession, operation: str) -> OperationRow:
    row = await session.get(OperationRow, operation)
    if row is None:
        raise _unknown(operation)
    return row


def _unknown(operation: str) -> NotFound:
    return NotFound(
        f"there is no operation {operation}",
        subject=operation,
        do="windlass op list shows the operations there are",
    )


class Operations(Store):
    @reading
    async def get(self, session: AsyncSession, operation: OperationId) -> Operation:
        return as_operation(await _known(session, operation))

    @reading
    async def plan(self, session: AsyncSession, operation: OperationId) -> ClusterPlan:
        """What the operation was accepted to do."""
        return ClusterPlan.model_validate_json((await _known(session, operation)).plan)

    @reading
    async def foreseen(self, session: AsyncSession, operation: OperationId) -> tuple[Leg, ...]:
        """The steps that it takes when nothing goes wrong."""
        row = await _known(session, operation)
        try:
            return read(Kind(row.kind), row.plan)
        except ValueError:
            return ()

    @reading
    async def steps(self, session: AsyncSession, operation: OperationId) -> list[Step]:
        """The steps seen so far, in the order in which they began."""
        rows = await session.scalars(
            select(StepRow).where(StepRow.operation == operation).order_by(StepRow.started)
        )
        return [steps.as_step(row) for row in rows]

    @reading
    async def slots(self, session: AsyncSession, cluster_uid: str) -> list[SlotState]:
        """The slots of the cluster that an operation is about, and what fills them now."""
        return [slots.slot_state(row) for row in await slots.slots_of(session, cluster_uid)]

    @reading
    async def page(
        self,
        session: AsyncSession,
        *,
        size: int,
        before: OperationId | None = None,
        subject: str = "",
        kind: str = "",
        stages: Sequence[Stage] = (),
    ) -> list[Operation]:
        """The newest first, from behind the operation `before`, with which the last page ended."""
        query = select(OperationRow)
        if before is not None:
            cut = await session.get(OperationRow, before)
            if cut is None:
                raise Invalid(
                    "the operation this page token ended with is gone",
                    reason="PAGE_TOKEN_EXPIRED",
                    do="list again from the first page",
                )
            older = tuple_(OperationRow.created, OperationRow.id) < tuple_(cut.created, cut.id)
            query = query.where(older)
        if subject:
            query = query.where(OperationRow.subject == subject)
        if kind:
            query = query.where(OperationRow.kind == kind)
        if stages:
            query = query.where(OperationRow.stage.in_(stages))
        newest = query.order_by(OperationRow.created.desc(), OperationRow.id.desc()).limit(size)
        return [as_operation(row) for row in await session.scalars(newest)]

    @reading
    async def learnt(self, session: AsyncSession) -> dict[str, float]:
        """How long each kind of step took of late, by its verb: the median, in seconds."""
        return await steps.usually(session)

    @transaction
    async def begin(self, session: AsyncSession, operation: OperationId) -> Brief:
        """Take an operation up. Asking again says the same: a book may be repeated.

        Its process may die once this is written and before its workflow knows, and another
        operation may take its place before this is asked again. Then it ends here, since its
        workflow will go no further; unless it has: this came late, and the workflow undoes."""
        row = await locked(session, operation)
        hold_readable(row)
        pushed = row.stage == Stage.SUPERSEDED and row.ended is None
        if row.stage == Stage.REQUESTED and row.ended is None:
            row.stage = Stage.RUNNING
            row.started = now()
            row.waiting_on = ""
            journal.write(session, row, f"{row.kind} of {row.subject} started")
        elif pushed and not await steps.begun(session, row.id):
            end(session, row, Stage.SUPERSEDED, "superseded before it did anything", None)
        row.heeded = True
        return Brief(
            operation=operation,
            kind=Kind(row.kind),
            plan=row.plan,
            over=row.ended is not None or row.stage not in ACTIVE,
            cancelled_by=row.cancelled_by,
            paused=bool(row.paused_by),
            supersedes=OperationId(row.supersedes) if row.supersedes else None,
        )

    @transaction
    async def tell(self, session: AsyncSession, reached: Reached) -> None:
        """Book how far one has come that belongs to no cluster. A repeat of its end changes
        nothing."""
        row = await locked(session, reached.operation)
        if row.ended is not None:
            return
        reached = recording.signed(row, reached)
        row.headline = reached.headline or row.headline
        if reached.stage is not None:
            await steps.close(session, row.id)
            end(session, row, reached.stage, reached.note, reached.failure)
        elif reached.note:
            journal.write(session, row, reached.note)

    @transaction
    async def forget(self, session: AsyncSession, operation: OperationId) -> None:
        """Remove the record of an operation that has ended, unless it is still needed."""
        row = await locked(session, operation)
        if row.ended is None:
            raise Conflict(
                f"operation {operation} is {row.stage} and cannot be deleted",
                subject=operation,
                reason="OPERATION_RUNNING",
                do=f"wait for it (windlass op watch {operation}) or cancel it first",
                facts={"operation": operation, "state": row.stage},
            )
        await forgetting.refuse_needed(session, row)
        await forgetting.erase(session, [row.id])

    @transaction
    async def fence(self, session: AsyncSession, operation: OperationId) -> None:
        """End an operation whose undo took too long for the one that took its place. From here
        on nobody writes for it; what it held is the new one's to give back."""
        await _fence(session, await locked(session, operation))

    @transaction
    async def fence_others(
        self, session: AsyncSession, operation: OperationId
    ) -> tuple[OperationId, ...]:
        """Fence every operation on the same cluster but this one, however long ago they were pushed
        aside. Returns which those were."""
        row = await locked(session, operation)
        others = select(OperationRow.id).where(
            OperationRow.cluster == row.cluster,
            OperationRow.id != row.id,
            OperationRow.ended.is_(None),
        )
        found = tuple(map(OperationId, (await session.scalars(others)).all()))
        for other in found:
            await _fence(session, await locked(session, other))
        return found

    @reading
    async def unlaunched(
        self, session: AsyncSession, older_than_seconds: float, limit: int = 100
    ) -> list[Operation]:
        """What was accepted and has not been taken up, oldest first."""
        waiting = and_(
            OperationRow.stage == Stage.REQUESTED,
            OperationRow.created < now() - timedelta(seconds=older_than_seconds),
        )
        return await self._some(session, waiting, limit)

    @reading
    async def backlog(self, session: AsyncSession) -> Backlog:
        """What an operator wants to be woken for."""
        oldest = await session.scalar(
            select(func.min(OperationRow.created)).where(OperationRow.stage == Stage.REQUESTED)
        )
        waiting = await session.execute(
            select(OperationRow.kind, func.count().label("waiting"))
            .where(*UNDER_WAY, OperationRow.waiting_on != "")
            .group_by(OperationRow.kind)
        )
        stuck = select(func.count()).where(
            OperationRow.ended.is_(None),
            or_(OperationRow.kind.not_in(KINDS), SET_ASIDE),
        )
        age = (now() - oldest).total_seconds() if oldest else 0.0
        return Backlog(
            oldest_requested_seconds=max(age, 0.0),
            waiting={row.kind: row.waiting for row in waiting},
            need_a_person=await session.scalar(stuck) or 0,
        )

    @reading
    async def called_off(self, session: AsyncSession, limit: int = 100) -> list[Operation]:
        """What was cancelled or superseded and has not ended: its workflow must be told."""
        told = and_(
            OperationRow.ended.is_(None),
            or_(
                OperationRow.stage == Stage.SUPERSEDED,
                and_(OperationRow.stage == Stage.RUNNING, OperationRow.cancel_requested),
            ),
        )
        return await self._some(session, told, limit)

    @reading
    async def unheeded(self, session: AsyncSession, limit: int = 100) -> list[Operation]:
        """What was paused, resumed or approved and has not looked since: its workflow must be told
        again."""
        untold = and_(OperationRow.stage == Stage.RUNNING, OperationRow.heeded.is_(False))
        return await self._some(session, untold, limit)

    @reading
    async def silent(
        self, session: AsyncSession, seconds: float, requested_seconds: float, limit: int = 100
    ) -> list[Operation]:
        """What has not ended and has not been heard of for so long; what was never taken up has a
        patience of its own."""

        def before(seconds: float) -> ColumnElement[bool]:
            return OperationRow.heard < now() - timedelta(seconds=seconds)

        requested = and_(OperationRow.stage == Stage.REQUESTED, before(requested_seconds))
        quiet = or_(and_(*UNDER_WAY, before(seconds)), requested)
        return await self._some(session, quiet, limit)

    @transaction
    async def found_alive(self, session: AsyncSession, operation: OperationId) -> None:
        """Count it as heard of, though it had nothing to say: others are looked at before it is
        looked at again."""
        waiting_on = case((SET_ASIDE, ""), else_=OperationRow.waiting_on)
        heard = update(OperationRow).where(OperationRow.id == operation)
        await session.execute(heard.values(heard=now(), waiting_on=waiting_on))

    @transaction
    async def set_aside(self, session: AsyncSession, operation: OperationId, why: str) -> None:
        """Say that nobody but a person will go on with it, and count it as heard of: others are
        looked at before it is looked at again."""
        said = f"{NEEDS_A_PERSON}{why}"[:MESSAGE_LENGTH]
        which = (OperationRow.id == operation, OperationRow.ended.is_(None))
        await session.execute(
            update(OperationRow).where(*which).values(heard=now(), waiting_on=said)
        )

    async def _some(
        self, session: AsyncSession, which: ColumnElement[bool], limit: int
    ) -> list[Operation]:
        """The oldest of them, without any that cannot be read."""
        known = OperationRow.kind.in_(KINDS)
        oldest = (
            select(OperationRow).where(which, known).order_by(OperationRow.created).limit(limit)
        )
        found = [as_operation(row) for row in await session.scalars(oldest)]
        return [operation for operation in found if not operation.unreadable]

    @transaction
    async def forget_answers(self, session: AsyncSession, older_than: timedelta) -> None:
        """Drop request ids that are past their window."""
        await session.execute(delete(AnswerRow).where(AnswerRow.created < now() - older_than))


def end(
    session: AsyncSession, row: OperationRow, stage: Stage, note: str, failure: Failure | None
) -> None:
    """Write an operation's last line. One that was superseded stays so."""
    row.stage = Stage.SUPERSEDED if row.stage == Stage.SUPERSEDED else stage
    row.ended = now()
    row.waiting_on = ""
    release(row)
    row.failure = failure.model_dump_json() if failure else ""
    journal.write(session, row, note, failure=failure, last=True)


async def _fence(session: AsyncSession, row: OperationRow) -> None:
    if row.ended is None:
        await steps.close(session, row.id)
        end(session, row, Stage.SUPERSEDED, "taken over before its undo had ended", None)


def message(row: OperationRow, *said: str) -> str:
    """What a cluster says of its operation."""
    before = f"{row.headline}; " if row.headline else f"{row.kind.removesuffix('-cluster')}: "
    return f"{before}{'; '.join(filter(None, said))} (op {row.id})"[:MESSAGE_LENGTH]


def release(row: OperationRow) -> None:
    """Whoever ends or is called off stands before nothing any more, and nothing holds it."""
    row.paused_by = row.gate = ""
    row.paused = row.gate_until = None
