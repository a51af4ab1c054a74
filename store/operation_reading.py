"""How the row of an operation is read: what cannot be read keeps no other from being read."""

from pydantic import TypeAdapter

from domain.errors import Failed, Failure
from domain.machine import LeftBehind
from domain.operation import NEEDS_A_PERSON, Kind, Operation, OperationId, Stage
from domain.outline import read
from store.rows import OperationRow

LEFT_BEHIND = TypeAdapter(tuple[LeftBehind, ...])

SET_ASIDE = OperationRow.waiting_on.startswith(NEEDS_A_PERSON)

KINDS = tuple(Kind)
"""Those that this version can carry out."""


def as_operation(row: OperationRow) -> Operation:
    """The row as it is read. One that cannot be read keeps no other from being read: it is shown
    as far as it can be, and says so."""
    stage, failure = Stage.RUNNING, None
    left_behind: tuple[LeftBehind, ...] = ()
    try:
        stage = Stage(row.stage)
        failure = Failure.model_validate_json(row.failure) if row.failure else None
        left_behind = LEFT_BEHIND.validate_json(row.left_behind or "[]")
        Kind(row.kind)
    except ValueError as error:
        said = f"it cannot be read ({str(error).splitlines()[0][:100]}); has a newer Windlass"
        return _as_read(row, stage, failure, left_behind, f"{NEEDS_A_PERSON}{said} written it?")
    return _as_read(row, stage, failure, left_behind, "")


def _as_read(
    row: OperationRow,
    stage: Stage,
    failure: Failure | None,
    left_behind: tuple[LeftBehind, ...],
    trouble: str,
) -> Operation:
    return Operation(
        id=OperationId(row.id),
        kind=Kind.named(row.kind),
        subject=row.subject,
        stage=stage,
        requester=row.requester,
        request_id=row.request_id,
        created=row.created,
        started=row.started,
        ended=row.ended,
        cancel_requested=row.cancel_requested,
        paused_by=row.paused_by,
        gate=row.gate,
        gate_until=row.gate_until,
        supersedes=OperationId(row.supersedes) if row.supersedes else None,
        waiting_on=trouble or row.waiting_on,
        failure=failure,
        left_behind=left_behind,
        last_event=row.events,
        unreadable=bool(trouble),
    )


def hold_readable(row: OperationRow) -> None:
    """Failed if it cannot be carried out by this version: trying again would end the same way."""
    operation = as_operation(row)
    if operation.unreadable:
        raise Failed(operation.waiting_on, subject=row.id, reason="UNREADABLE")
    try:
        read(operation.kind, row.plan)
    except ValueError as error:
        said = f"{NEEDS_A_PERSON}its plan cannot be read ({str(error).splitlines()[0]})"
        raise Failed(said, subject=row.id, reason="UNREADABLE") from error
