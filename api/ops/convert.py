"""Between the domain's operations and their two contracts."""

from datetime import datetime, timedelta

from google.longrunning import operations_pb2 as longrunning  # type: ignore[import-untyped]
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import code_pb2, status_pb2  # type: ignore[import-untyped]

from api.errors import code_of, number, packed_failure, wrong
from api.ops import states
from api.ops.outlook import Standing
from api.ops.plans import Foreseen
from domain.errors import Failure
from domain.machine import LeftBehind
from domain.operation import Event, Operation, OperationId, Stage, Step
from domain.prospect import Prospect
from protos.gen.ops import operations_pb2 as pb

PREFIX = "operations/"
ID_LENGTH = 36
GATE_LENGTH = 100

LAST_EVENT = 2**31 - 1
"""No event has a greater number; the journal counts in 32 bits."""


def identity(name: str) -> OperationId:
    """The id out of "operations/ID" or of just the id."""
    found = name.removeprefix(PREFIX)
    if not found:
        raise wrong("name", "is required")
    if len(found) > ID_LENGTH or not found.isprintable():
        raise wrong("name", f'{found[:64]!r} is not the name of an operation: "{PREFIX}ID"')
    return OperationId(found)


def gate(name: str) -> str:
    """The name of a gate, which may be left out."""
    if len(name) > GATE_LENGTH or not (name == "" or name.isprintable()):
        raise wrong("gate", "cannot be the name of a gate")
    return name


def place(after: int) -> int:
    """Behind which event a watch begins. Whatever is greater than any number may be is behind the
    last one."""
    if after < 0:
        raise wrong("after", f"{after} is negative")
    return min(after, LAST_EVENT)


def operation(standing: Standing) -> pb.Operation:
    """An operation with the steps that the standing has."""
    of = standing.operation
    return pb.Operation(
        name=PREFIX + of.id,
        kind=of.kind,
        subject=of.subject,
        stage=states.STAGES[of.stage],
        requester=of.requester,
        created=moment(of.created),
        started=moment(of.started),
        ended=moment(of.ended),
        percent=standing.percent,
        eta=_span(standing.eta),
        waiting_on=of.waiting_on,
        cancel_requested=of.cancel_requested,
        failure=_failure(of.failure),
        steps=map(_step, standing.steps),
        last_event=of.last_event,
        request_id=of.request_id,
        paused_by=of.paused_by,
        gate=of.gate,
        gate_until=moment(of.gate_until),
        left_behind=map(_left, of.left_behind),
    )


def event(of: Event, standing: Standing) -> pb.OperationEvent:
    return pb.OperationEvent(
        number=of.number,
        time=moment(of.time),
        note=of.note,
        step=_step(of.step) if of.step else None,
        operation=operation(standing),
        last=of.last,
    )


def plan(of: Foreseen) -> pb.PlanResponse:
    return pb.PlanResponse(
        kind=of.accepted.kind,
        subject=of.accepted.subject,
        steps=map(_step, of.steps),
        machines=map(_prospect, of.machines),
        duration=_span(of.duration),
        gates=(pb.PlannedGate(name=gate.name, before=gate.before) for gate in of.gates),
        warnings=of.warnings,
    )


def long_running(standing: Standing) -> longrunning.Operation:
    """The same operation as google.longrunning has it: done once its undo is over too."""
    of = standing.operation
    reply = longrunning.Operation(name=PREFIX + of.id, done=of.ended is not None)
    reply.metadata.Pack(operation(standing))
    if of.ended is not None:
        if of.stage is Stage.SUCCEEDED:
            reply.response.Pack(Empty())
        else:
            reply.error.CopyFrom(_error(of))
    return reply


def seconds(timeout: Duration, most: float) -> float:
    """How long to wait: what is asked for, or as long as we do."""
    asked = timeout.seconds + timeout.nanos / 1e9  # any number: ToTimedelta takes small ones only
    if asked < 0:
        raise wrong("timeout", "is negative")
    return min(asked or most, most)


def _error(of: Operation) -> status_pb2.Status:
    if of.failure is not None:
        return packed_failure(of.failure)
    return status_pb2.Status(
        code=code_pb2.ABORTED, message=f"{PREFIX}{of.id} is {of.stage}: another took its place"
    )


def _step(step: Step) -> pb.Step:
    return pb.Step(
        verb=step.key.verb,
        subject=step.key.subject,
        state=states.STEP_STATES[step.state],
        started=moment(step.started),
        ended=moment(step.ended),
        attempts=step.attempts,
        note=step.note,
        undo=step.key.undo,
        turn=step.key.turn,
    )


def _prospect(of: Prospect) -> pb.PlannedMachine:
    return pb.PlannedMachine(
        node=of.node,
        pool=of.pool,
        fate=states.FATES[of.fate],
        instance_type=of.instance_type,
        system_id=of.system_id,
        hostname=of.hostname,
    )


def _left(of: LeftBehind) -> pb.LeftBehind:
    return pb.LeftBehind(
        node=of.name,
        system_id=of.system_id,
        hostname=of.hostname,
        agent_name=of.agent_name,
        why=of.why,
    )


def _failure(failure: Failure | None) -> pb.Failure | None:
    if failure is None:
        return None
    code = number(code_of(failure))
    return pb.Failure(code=code, kind=failure.kind, message=failure.message)


def moment(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def _span(span: timedelta | None) -> Duration | None:
    if span is None:
        return None
    duration = Duration()
    duration.FromTimedelta(span)
    return duration
