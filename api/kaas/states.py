"""The domain's phases in the words of the kaas contract."""

from domain.cluster import Phase
from domain.machine import SlotPhase, SlotState
from protos.gen.kaas import api_pb2 as pb

CLUSTER_STATUS: dict[Phase, pb.ClusterStatus.ValueType] = {
    Phase.PROVISIONING: pb.PROVISIONING,
    Phase.RUNNING: pb.RUNNING,
    Phase.RECONCILING: pb.RECONCILING,
    Phase.STOPPING: pb.STOPPING,
    Phase.ERROR: pb.ERROR,
    Phase.DEGRADED: pb.DEGRADED,
}
"""Every phase but GONE: what is gone is NotFound. STATUS_UNSPECIFIED is never sent."""

NODE_STATUS: dict[SlotPhase, str] = {
    SlotPhase.PLANNED: "Pending",
    SlotPhase.ALLOCATED: "Pending",
    SlotPhase.DEPLOYING: "Pending",
    SlotPhase.DEPLOYED: "Bootstrapping",
    SlotPhase.JOINED: "NotReady",
    SlotPhase.HEALTHY: "Ready",
    SlotPhase.LOST: "Unknown",
    SlotPhase.DRAINING: "Ready,SchedulingDisabled",
    SlotPhase.FAILED: "Failed",
    SlotPhase.RELEASING: "Deleting",
    SlotPhase.RELEASED: "Pending",
}
"""What kubectl would say of the node, or why it cannot."""

CLOSED = ",SchedulingDisabled"
"""What it adds for a node that takes no new pods."""

NODES = frozenset({SlotPhase.JOINED, SlotPhase.HEALTHY, SlotPhase.LOST, SlotPhase.DRAINING})
"""The phases in which there is a kubelet that reports a version."""

EMPTY = frozenset({SlotPhase.PLANNED, SlotPhase.RELEASED})
"""The phases in which no machine is in the slot."""

ADDRESSED = frozenset({*NODES, SlotPhase.DEPLOYING, SlotPhase.DEPLOYED, SlotPhase.FAILED})
"""The phases in which an address means something; until the deployment it is not claimed."""


def node_status(state: SlotState) -> str:
    """The word for a slot. Somebody may have closed a node that nobody empties."""
    word = NODE_STATUS[state.phase]
    closed = state.phase in NODES and state.node is not None and not state.node.schedulable
    return word + CLOSED if closed and not word.endswith(CLOSED) else word
