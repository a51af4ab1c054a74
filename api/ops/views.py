"""Clusters and their nodes as windlass.v1 shows them."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from api.errors import wrong
from api.ops import states
from domain.cluster import Cluster
from domain.health import WATCHED
from domain.machine import SlotPhase, SlotState
from domain.naming import CLUSTER_NAME_LENGTH, is_dns_label
from protos.gen.ops import clusters_pb2 as pb
from store.following import ClusterView


def name(text: str) -> str:
    """The name of a cluster, if it can be one."""
    if not is_dns_label(text, CLUSTER_NAME_LENGTH):
        raise wrong(
            "name", f"{text[:64]!r} cannot be the name of a cluster" if text else "is required"
        )
    return text


def cluster(view: ClusterView) -> pb.ClusterView:
    shown = view.cluster
    return pb.ClusterView(
        name=shown.name,
        phase=states.PHASES[shown.phase],
        message=shown.message,
        version=shown.version,
        operation=f"operations/{shown.operation}",
        confirmed=_stamp(view.confirmed),
        nodes=map(_node, view.slots),
    )


def owner(cluster: Cluster) -> pb.ClusterOwner:
    return pb.ClusterOwner(
        name=cluster.name,
        uid=cluster.uid,
        phase=states.PHASES[cluster.phase],
        owner=cluster.owner,
    )


def _node(state: SlotState) -> pb.NodeView:
    node, machine = state.node, state.machine
    return pb.NodeView(
        name=state.slot.name,
        pool=state.slot.pool,
        phase=state.phase,
        reason=node.reason if node else "",
        since=_stamp(node.since) if node else None,
        schedulable=state.phase in WATCHED - {SlotPhase.DRAINING}
        and (node is None or node.schedulable),
        kubelet=state.kubelet,
        machine_id=state.system_id,
        hostname=state.hostname,
        address=state.address,
        machine_status=state.status,
        power=machine.power if machine else "",
    )


def _stamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
