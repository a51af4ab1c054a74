"""Whether what we say is so, once nothing is under way: rows beside the world."""

from collections import Counter
from collections.abc import Iterator, Sequence

from domain.cluster import Cluster, ClusterNodes, Phase
from domain.machine import Role, SlotPhase, SlotState
from sim.world import MemoryWorld
from tests.reliability.grounds import Grounds
from tests.reliability.model import Known, Model


async def wrong(grounds: Grounds, model: Model) -> list[str]:
    """Everything that is not as it must be, in words."""
    world = grounds.world.memory
    there = {cluster.name: cluster for cluster in await grounds.clusters.all()}
    found = [f"cluster {name} is not gone" for name in there.keys() - model.clusters.keys()]
    found += [f"cluster {name} is gone" for name in model.clusters.keys() - there.keys()]
    owners: list[str] = []
    for name in sorted(there.keys() & model.clusters.keys()):
        nodes = await grounds.clusters.nodes(name)
        owners += [
            state.slot.agent_name for state in nodes.slots if state.phase is SlotPhase.HEALTHY
        ]
        known, truth = model.clusters[name], model.phase(name, world)
        found += _of_cluster(known, truth, there[name], nodes)
        found += _of_world(known, truth, nodes, world)
    if sorted(owners) != world.owners:
        found.append(f"machines are owned by {world.owners}, and {sorted(owners)} live")
    found += [f"node {node} is still closed to work" for node in sorted(world.cordoned)]
    living = {known.uid for known in model.clusters.values()}
    found += [f"etcd of {uid} is still there" for uid in world.members.keys() - living]
    names = {known.endpoint for known in model.clusters.values()}
    found += [f"the name {name} is still there" for name in world.names.keys() - names]
    return found


def _of_cluster(known: Known, truth: Phase, cluster: Cluster, nodes: ClusterNodes) -> Iterator[str]:
    """A place that was never filled and is wanted no more keeps a cluster DEGRADED: until it is
    emptied for good, nobody has looked whether MAAS holds a machine for it."""
    places = Counter(state.slot.pool for state in nodes.slots)
    if truth is Phase.RUNNING and places != +known.wanted:
        truth = Phase.DEGRADED
    if cluster.phase is not truth:
        yield f"{cluster.name} says {cluster.phase} and is {truth}: {cluster.message}"
    said, is_so = (cluster.version, cluster.pending), (known.version, known.pending)
    if said != is_so:
        yield f"{cluster.name} says it is of version and on its way to {said}, and is {is_so}"
    for state in nodes.slots:
        if state.phase not in (SlotPhase.HEALTHY, SlotPhase.RELEASED, SlotPhase.PLANNED):
            yield f"{state.slot.name} is {state.phase}, and nobody works on it"


def _of_world(known: Known, truth: Phase, nodes: ClusterNodes, world: MemoryWorld) -> Iterator[str]:
    healthy = [state for state in nodes.slots if state.phase is SlotPhase.HEALTHY]
    listed = world.nodes.get(known.uid, set())
    if {state.slot.name for state in healthy} != listed:
        yield f"the API lists {sorted(listed)}, and {[one.slot.name for one in healthy]} are Ready"
    yield from _of_versions(known, truth, healthy, world)
    controls = [state for state in healthy if state.slot.role is Role.CONTROL_PLANE]
    members = world.members.get(known.uid, [])
    if sorted(members) != sorted(state.system_id for state in controls):
        yield f"etcd counts {members}, and {[one.system_id for one in controls]} are its hosts"
    leads = world.names.get(known.endpoint, ()) if truth is not Phase.ERROR else ()
    if sorted(leads) != sorted(state.address for state in controls):
        yield f"{known.endpoint} leads to {leads}, and not to {[one.address for one in controls]}"


def _of_versions(
    known: Known, truth: Phase, healthy: Sequence[SlotState], world: MemoryWorld
) -> Iterator[str]:
    """No node runs what is neither the cluster's version nor the one it is on its way to, and the
    rows say which of them it runs."""
    right = {known.version, *([known.pending] if known.pending else [])}
    runs = {metal.owner: metal for metal in world.machines if metal.node}
    for state in healthy:
        metal = runs.get(state.slot.agent_name)
        if metal and state.kubelet != metal.kubelet:
            yield f"the kubelet of {metal.node} is {metal.kubelet}, and {state.kubelet} to us"
        if metal and not {metal.kubelet, metal.kubeadm} <= right:
            yield f"{metal.node} is of {metal.kubelet}, made by kubeadm of {metal.kubeadm}"
    if truth is not Phase.ERROR and world.configured.get(known.uid) not in right:
        yield f"{known.uid} is configured for {world.configured.get(known.uid)}"
    if world.disturbed:
        yield f"kubelets were renewed under their pods: {sorted(set(world.disturbed))}"
