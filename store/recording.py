"""Accepted changes, written down, and who called them off."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.operation import Ask, Cancelled, Kind, OperationId, Reached, Stage
from store import answers, journal
from store.rows import OperationRow, now


def write(
    session: AsyncSession,
    operation: OperationId,
    kind: Kind,
    subject: str,
    plan: str,
    ask: Ask,
    *,
    cluster: str = "",
    steps: int = 0,
    headline: str = "",
    supersedes: OperationId | None = None,
    parent: str = "",
) -> OperationRow:
    """The operation, the caller's key and the journal's first line. `plan` is JSON of whatever its
    kind is carried out by; `steps` is how many that foresees."""
    moment = now()
    row = OperationRow(
        id=operation,
        tenant=ask.tenant,
        kind=kind,
        subject=subject,
        cluster=cluster,
        plan=plan,
        stage=Stage.REQUESTED,
        requester=ask.caller,
        request_id=ask.key,
        created=moment,
        started=None,
        heard=moment,
        ended=None,
        cancel_requested=False,
        cancelled_by="",
        paused_by="",
        paused=None,
        gate="",
        gate_until=None,
        approved="",
        heeded=True,
        supersedes=supersedes or "",
        waiting_on="",
        failure="",
        left_behind="",
        headline=headline,
        steps=steps,
        steps_done=0,
        events=0,
        parent=parent,
    )
    session.add(row)
    answers.remember(session, ask, operation)
    journal.write(session, row, f"{kind} of {subject} accepted from {ask.caller}")
    return row


def signed(row: OperationRow, reached: Reached) -> Reached:
    """A workflow only knows that it was called off; by whom is in the row."""
    if reached.stage is not Stage.CANCELLED:
        return reached
    unsaid = "a delete" if row.stage == Stage.SUPERSEDED else "someone in Temporal"
    failure = Cancelled.by(row.cancelled_by or unsaid)
    return reached.model_copy(update={"note": failure.message, "failure": failure})
