"""Between the messages of the kaas contract and the words of the domain."""

from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING, Protocol

from api.build import Build
from api.errors import wrong
from api.kaas import states
from domain import naming
from domain.cluster import Cluster, ClusterNodes, ClusterOrder, Limits, PoolOrder
from domain.machine import Label, SlotState
from domain.operation import Operation
from domain.pools import PoolSize
from protos.gen.kaas import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_LENGTH = 253
"""Longer than any name can be, and short enough to look for."""


class _Pool(Protocol):
    """What control-plane and worker pools have in common on the wire."""

    @property
    def labels(self) -> "Sequence[pb.KubernetesLabel]": ...
    @property
    def instanceType(self) -> str: ...


def named(field: str, name: str) -> str:
    """A name to look something up by. Whether there is such a thing is not asked here."""
    if not name:
        raise wrong(field, "is required")
    if len(name) > NAME_LENGTH or not name.isprintable():
        raise wrong(field, f"{name[:64]!r} cannot be a name")
    return name


def order(request: pb.CreateClusterMsg, limits: Limits) -> ClusterOrder:
    """A cluster as its user asks for it. Lists beyond their limits are refused before they are
    read: a megabyte of labels is no order."""
    if not request.HasField("control_plane_nodes"):
        raise wrong("control_plane_nodes", "is required; its fields may be left out")
    control_plane = request.control_plane_nodes
    pools = request.worker_node_pools
    _few("worker_node_pools", pools, limits.pools)
    _few("control_plane_nodes.labels", control_plane.labels, limits.labels)
    for index, pool in enumerate(pools):
        _few(f"worker_node_pools[{index}].labels", pool.labels, limits.labels)
    return ClusterOrder(
        name=request.name,
        version=request.k8s_version,
        control_plane=_pool(naming.CONTROL_PLANE, control_plane, control_plane.count or 1),
        pools=tuple(_pool(pool.name, pool, pool.count) for pool in pools),
    )


def pools(request: pb.AddNodePoolMsg, limits: Limits) -> tuple[PoolOrder, ...]:
    """The pools that are asked for, unless they are too many to be read."""
    asked = request.worker_node_pools
    _few("worker_node_pools", asked, limits.pools)
    for index, pool in enumerate(asked):
        _few(f"worker_node_pools[{index}].labels", pool.labels, limits.labels)
    return tuple(_pool(pool.name, pool, pool.count) for pool in asked)


def sizes(request: pb.ScaleNodePoolMsg, limits: Limits) -> tuple[PoolSize, ...]:
    """The sizes that are asked for, unless they are too many to be read."""
    _few("node_pools", request.node_pools, limits.pools)
    return tuple(PoolSize(name=pool.name, count=pool.count) for pool in request.node_pools)


def accepted(operation: Operation) -> pb.CreateClusterReply:
    """The reply to a create, made from what was recorded: a repeat gets the same."""
    name = operation.subject.removeprefix("cluster/")
    cluster = pb.ClusterItem(name=name, status=pb.PROVISIONING, status_message="queued")
    return pb.CreateClusterReply(ok=True, cluster=cluster)


def item(cluster: Cluster) -> pb.ClusterItem:
    return pb.ClusterItem(
        name=cluster.name,
        status=states.CLUSTER_STATUS[cluster.phase],
        status_message=cluster.message,
    )


def detail(cluster: Cluster, kubeconfig: str) -> pb.ClusterDetailItem:
    return pb.ClusterDetailItem(
        name=cluster.name,
        status=states.CLUSTER_STATUS[cluster.phase],
        status_message=cluster.message,
        kubeconfig=kubeconfig,
    )


def nodes(found: ClusterNodes) -> pb.GetClusterNodesStatusReply:
    return pb.GetClusterNodesStatusReply(
        Name=found.cluster,
        count=len(found.slots),
        machines=[_machine(slot) for slot in found.slots],
    )


def version(build: Build) -> pb.GetVersionReply:
    """The contract speaks of Go; the fields carry what is nearest to it here."""
    information = pb.GetVersionReply.VersionInformation(
        git_version=build.version,
        git_commit=build.commit,
        git_tree_state=build.tree_state,
        build_date=build.date,
        go_version=build.python,
        compiler=build.compiler,
        platform=build.platform,
    )
    return pb.GetVersionReply(ok=True, version_information=information)


def _pool(name: str, pool: _Pool, count: int) -> PoolOrder:
    return PoolOrder(
        name=name,
        count=count,
        instance_type=pool.instanceType,
        labels=tuple(_labels(pool.labels)),
    )


def _labels(labels: Iterable[pb.KubernetesLabel]) -> Iterable[Label]:
    return (Label(name=label.name, value=label.value) for label in labels)


def _machine(state: SlotState) -> pb.GetClusterNodesStatusReply.MachineStatus:
    phase = state.phase
    word = states.node_status(state)
    machine = pb.GetClusterNodesStatusReply.MachineStatus(k8sNodeStatus=word)
    if phase in states.NODES:
        machine.k8sVersion = state.kubelet
    if phase in states.ADDRESSED:
        machine.maasIPAddr = state.address
    if phase not in states.EMPTY:
        machine.maasSystemId = state.system_id
        machine.maasHostname = state.hostname
        machine.maasNodeStatus = state.status
    return machine


def _few(field: str, things: Sized, most: int) -> None:
    if len(things) > most:
        raise wrong(field, f"{len(things)} of them, at most {most}")
