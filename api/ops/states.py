"""The domain's stages and step states in the words of windlass.v1."""

from domain.operation import Stage, StepState
from protos.gen.ops import operations_pb2 as pb

STAGES: dict[Stage, pb.Stage.ValueType] = {
    Stage.REQUESTED: pb.REQUESTED,
    Stage.RUNNING: pb.RUNNING,
    Stage.SUCCEEDED: pb.SUCCEEDED,
    Stage.FAILED: pb.FAILED,
    Stage.CANCELLED: pb.CANCELLED,
    Stage.SUPERSEDED: pb.SUPERSEDED,
}

STEP_STATES: dict[StepState, pb.StepState.ValueType] = {
    StepState.PENDING: pb.PENDING,
    StepState.ACTIVE: pb.ACTIVE,
    StepState.DONE: pb.DONE,
    StepState.STUMBLED: pb.STUMBLED,
}
