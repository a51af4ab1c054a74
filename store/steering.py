"""What people wish of an operation while it runs: that it stops, waits, goes on.

A wish is a line of the operation's row and is there once it is accepted; the workflow is nudged,
and reads it. What comes of it stands in the journal."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Conflict
from domain.frozen import Frozen
from domain.operation import ACTIVE, TRACKED, Kind, Operation, OperationId, Stage
from store import journal, operations
from store.clock import moment
from store.engine import Store, transaction
from store.rows import ClusterRow, OperationRow

FINAL: dict[Kind, str] = {
    Kind.DELETE_CLUSTER: "machines that are being given back are not ours to keep",
    Kind.DELETE_POOL: "data that is being deleted cannot be had again",
    **dict.fromkeys(
        (Kind.DELETE_CLUSTERINST, Kind.DELETE_APPINST, Kind.DELETE_CLOUDLET),
        "a resource manager that deletes is not called back",
    ),
}
"""Why what is being deleted is not kept."""


class Wishes(Frozen):
    """What a workflow finds when it looks."""

    paused: bool
    """Whether it is to take no further step: until it may again, or is told to stop."""


class Passage(Frozen):
    """What a workflow finds at a gate."""

    open: bool = False
    lapsed: bool = False
    """Nobody approved in time, or somebody called the operation off: it goes no further."""
    left_seconds: float = 0.0
    """How long it may still be waited for."""


class Steering(Store):
    @transaction
    async def cancel(self, session: AsyncSession, operation: OperationId, who: str) -> Operation:
        """Ask for an operation to be called off. Asking again changes nothing."""
        row = await operations.locked(session, operation)
        _refuse_what_is_over(row, "cancelled")
        _refuse_a_delete(row, "cancelled", reason="NOT_CANCELLABLE")
        if not row.cancel_requested:
            _call_off(session, row, who)
        return operations.as_operation(row)

    @transaction
    async def pause(self, session: AsyncSession, operation: OperationId, who: str) -> Operation:
        """Let an operation take no further step. Those under way end. Asking again changes
        nothing: it stays paused by whoever was first."""
        row = await operations.locked(session, operation)
        _refuse_what_is_over(row, "paused")
        _refuse_a_delete(row, "paused", reason="NOT_PAUSABLE")
        _refuse_what_only_waits(row)
        if not row.paused_by:
            row.paused_by, row.paused = who, await moment(session)
            await _wished(session, row, f"paused by {who}; steps under way end")
        return operations.as_operation(row)

    @transaction
    async def resume(self, session: AsyncSession, operation: OperationId, who: str) -> Operation:
        """Let a paused operation go on. One that is not paused goes on as it does. The time that
        it was paused is no part of what it may wait at a gate."""
        row = await operations.locked(session, operation)
        _refuse_what_is_over(row, "resumed")
        if row.paused is not None:
            if row.gate_until is not None:
                row.gate_until += await moment(session) - row.paused
            row.paused_by, row.paused = "", None
            await _wished(session, row, f"resumed by {who}")
        return operations.as_operation(row)

    @transaction
    async def approve(
        self, session: AsyncSession, operation: OperationId, gate: str, who: str
    ) -> Operation:
        """Open the gate that an operation stands before; if one is named, only that. Naming the
        one that was opened last again changes nothing."""
        row = await operations.locked(session, operation)
        _refuse_what_is_over(row, "approved")
        if gate and gate == row.approved:
            return operations.as_operation(row)
        if not row.gate or gate not in ("", row.gate):
            raise Conflict(
                f"operation {operation} does not wait for {gate or 'anything'} to be approved",
                subject=operation,
                reason="NOT_AWAITED",
                do=_instead(row),
                facts={**_facts(row), "gate": row.gate},
            )
        row.approved, row.gate, row.gate_until = row.gate, "", None
        await _wished(session, row, f"{row.approved} approved by {who}")
        return operations.as_operation(row)

    @transaction
    async def look(
        self, session: AsyncSession, operation: OperationId, *, heeds: bool = True
    ) -> Wishes:
        """What its workflow is to do. If it `heeds`, it knows that from now on; its children only
        look, since they tell nobody."""
        row = await operations.locked(session, operation)
        row.heeded = row.heeded or heeds
        return Wishes(paused=bool(row.paused_by) or row.cancel_requested)

    @transaction
    async def arrive(
        self, session: AsyncSession, operation: OperationId, gate: str, limit: timedelta
    ) -> Passage:
        """Stand before a gate, or see whether it has been opened. The time runs from the first
        arrival; when it is up the operation is called off, by the gate itself."""
        row = await operations.locked(session, operation)
        row.heeded = True
        if row.approved == gate:
            return Passage(open=True)
        if row.cancel_requested or row.stage not in ACTIVE:
            return Passage(lapsed=True)
        present = await moment(session)
        if row.gate != gate or row.gate_until is None:
            row.gate, row.gate_until = gate, present + limit
            until = f"{row.gate_until:%Y-%m-%d %H:%M:%S} UTC"
            await _said(session, row, f"waits until {until} for {gate} to be approved")
        left = (row.gate_until - (row.paused or present)).total_seconds()
        if left > 0:
            return Passage(left_seconds=left)
        _call_off(session, row, f"the gate before {gate}: nobody approved it within {limit}")
        return Passage(lapsed=True)


def _call_off(session: AsyncSession, row: OperationRow, who: str) -> None:
    row.cancel_requested = True
    row.cancelled_by = who
    operations.release(row)
    journal.write(session, row, f"cancel asked for by {who}; undoing")


async def _wished(session: AsyncSession, row: OperationRow, note: str) -> None:
    """Write a wish down that the workflow has not seen yet."""
    row.heeded = False
    await _said(session, row, note)


async def _said(session: AsyncSession, row: OperationRow, note: str) -> None:
    """Say it in the journal, and on the cluster if it is still this operation's."""
    journal.write(session, row, note)
    cluster = await session.get(ClusterRow, row.cluster, with_for_update=True)
    if cluster is not None and cluster.operation == row.id:
        cluster.message = operations.message(row, note)
        if not row.gate:  # it goes on, and what was seen while it waited is no news
            cluster.trouble = ""


def _refuse_what_is_over(row: OperationRow, what: str) -> None:
    """What has ended, or only undoes any more, is steered no further."""
    undoing = row.cancel_requested and what != "cancelled"
    if row.ended is None and row.stage in ACTIVE and not undoing:
        return
    stage = "being undone" if undoing and row.ended is None else row.stage
    raise Conflict(
        f"operation {row.id} is {stage} and cannot be {what}",
        subject=row.id,
        reason="OPERATION_ENDED",
        facts=_facts(row),
    )


def _refuse_a_delete(row: OperationRow, what: str, *, reason: str) -> None:
    if why := FINAL.get(Kind.named(row.kind)):
        raise Conflict(
            f"the delete of {row.subject} cannot be {what}: {why}",
            subject=row.id,
            reason=reason,
            do=f"windlass op watch {row.id}",
            facts=_facts(row),
        )


def _instead(row: OperationRow) -> str:
    """What to do about an operation that does not wait for what is approved."""
    if row.gate:
        return f"windlass op approve {row.id} --gate '{row.gate}' approves what it waits for"
    if row.paused_by:
        return f"windlass op resume {row.id}, if it is to go on"
    return f"windlass op watch {row.id} shows how it goes on, and when it waits"


def _refuse_what_only_waits(row: OperationRow) -> None:
    if row.kind in TRACKED:
        raise Conflict(
            f"{row.kind} of {row.subject} cannot be paused: it takes no steps",
            subject=row.id,
            reason="NOT_PAUSABLE",
            do=f"windlass op cancel {row.id}, if it is not to go on",
            facts=_facts(row),
        )


def _facts(row: OperationRow) -> dict[str, str]:
    return {"operation": row.id, "state": Stage(row.stage)}
