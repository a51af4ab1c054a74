"""The domain's stages, step states, phases and fates in the words of windlass.v1."""

from domain.cluster import Phase
from domain.operation import Stage, StepState
from domain.prospect import Fate
from domain.repairs import Policy
from protos.gen.ops import clusters_pb2, health_pb2
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

PHASES: dict[Phase, clusters_pb2.ClusterPhase.ValueType] = {
    Phase.PROVISIONING: clusters_pb2.CLUSTER_PROVISIONING,
    Phase.RUNNING: clusters_pb2.CLUSTER_RUNNING,
    Phase.RECONCILING: clusters_pb2.CLUSTER_RECONCILING,
    Phase.STOPPING: clusters_pb2.CLUSTER_STOPPING,
    Phase.ERROR: clusters_pb2.CLUSTER_ERROR,
    Phase.DEGRADED: clusters_pb2.CLUSTER_DEGRADED,
    Phase.GONE: clusters_pb2.CLUSTER_GONE,
}

POLICIES: dict[Policy, health_pb2.Policy.ValueType] = {
    Policy.OFF: health_pb2.OFF,
    Policy.PROPOSE: health_pb2.PROPOSE,
    Policy.AUTOMATIC: health_pb2.AUTOMATIC,
}

POLICY_NAMES = tuple(health_pb2.Policy.Name(number) for number in POLICIES.values())

FATES: dict[Fate, pb.MachineFate.ValueType] = {
    Fate.TAKEN: pb.TAKEN,
    Fate.RETURNED: pb.RETURNED,
    Fate.KEPT: pb.KEPT,
}
