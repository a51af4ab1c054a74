"""The whole world in one process: what the ports promise, kept without a socket.

For tests of workflows, where each step may be the last, may run twice and may be where somebody
calls the work off. It answers at once and remembers everything, so that a test can ask afterwards
what was left behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from domain.errors import Failed, Invalid, NotFound, Unavailable
from domain.machine import Machine, Role, Search, Slot
from domain.ports import ClusterMark, Endpoint, Joining, Node, Snapshot, Stock, Upgrading
from domain.releases import Version
from domain.seen import Inside, MachineSeen, MemberSeen, NodeSeen, Readiness
from domain.upgrades import reaches


@dataclass
class Metal:
    """One machine: who has it, and what became of it."""

    system_id: str
    address: str
    tag: str = "metal"
    owner: str = ""
    """The agent name of the slot it fills."""
    cluster: str = ""
    deployed: bool = False
    node: str = ""
    sour: bool = False
    """Never deploys."""
    kubeadm: str = ""
    """The version for which kubeadm made or upgraded it."""
    kubelet: str = ""
    """The version of the kubelet that runs on it."""
    server: str = ""
    """The version of the API server that runs on it, if it is a control plane."""
    powered: bool = True
    """Off: its node is lost, and its etcd member silent."""
    status: str = ""
    """What MAAS calls it, if not what follows from the above."""

    @property
    def said(self) -> str:
        states = {(True, True): "Deployed", (True, False): "Allocated"}
        return self.status or states.get((bool(self.owner), self.deployed), "Ready")


@dataclass
class MemoryWorld:
    """Machines, names, nodes. `taken` counts every allocation there ever was."""

    machines: list[Metal] = field(default_factory=list)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    """What the API of each cluster lists, by the cluster's uid."""
    members: dict[str, list[str]] = field(default_factory=dict)
    """Whom the etcd of each cluster counts. One that is reset without having left is counted on,
    and the others let nobody else in."""
    kubeadm_runs: list[str] = field(default_factory=list)
    never_reset: list[str] = field(default_factory=list)
    """Machines given back as the nodes they were: a delete may do so, an undo may not."""
    taken: list[tuple[str, str]] = field(default_factory=list)
    cordoned: set[str] = field(default_factory=set)
    """The nodes that take no pods."""
    pods: dict[str, list[str]] = field(default_factory=dict)
    """Pods by node that will not leave it, each with what holds it."""
    configured: dict[str, str] = field(default_factory=dict)
    """The version that each cluster's own configuration names."""
    snapshots: dict[str, str] = field(default_factory=dict)
    """Copies of etcd, by name, and the version of the API server that each was taken under."""
    disturbed: list[str] = field(default_factory=list)
    """Nodes whose kubelet was renewed under their pods: while they were open to more."""
    stuck: set[str] = field(default_factory=set)
    """Machines on which no other kubelet can be installed."""
    unanswering: set[str] = field(default_factory=set)
    """Clusters, by uid, whose API gives no answer, whatever their etcd says."""
    expires: datetime | None = None
    """When every certificate does."""
    refusing: int = 0
    """So many releases are refused for good before one is carried out."""

    @classmethod
    def of(cls, count: int, *, sour: int = 0) -> "MemoryWorld":
        """A world with so many machines, the first of which never deploy."""
        return cls(
            machines=[
                Metal(system_id=f"m{index:03}", address=f"127.0.7.{index + 1}", sour=index < sour)
                for index in range(count)
            ]
        )

    @property
    def leftovers(self) -> list[str]:
        """Everything that somebody still holds; nothing, if all was given back."""
        owned = [
            f"{metal.system_id} is owned by {metal.owner!r}, as node {metal.node!r}"
            for metal in self.machines
            if metal.owner or metal.node
        ]
        named = [f"{name} leads to {led}" for name, led in self.names.items()]
        counted = [f"etcd of {uid} counts {members}" for uid, members in self.members.items()]
        return owned + named + counted + [f"{uid} lists {on}" for uid, on in self.nodes.items()]

    @property
    def owners(self) -> list[str]:
        """The agent names of all slots that hold a machine."""
        return sorted(metal.owner for metal in self.machines if metal.owner)

    def held_by(self, agent_name: str) -> Metal | None:
        return next((metal for metal in self.machines if metal.owner == agent_name), None)

    def metal(self, machine: Machine) -> Metal:
        """What the machine is made of, as long as it fills its slot."""
        metal = self.held_by(machine.slot.agent_name)
        if metal is None or metal.system_id != machine.system_id:
            raise Failed(f"{machine.system_id} is not held by {machine.slot.name}")
        return metal

    def dead_members(self, cluster: str) -> list[str]:
        """Whom a cluster's etcd counts and does not hear."""
        heard = {
            m.system_id for m in self.machines if m.cluster == cluster and m.node and m.powered
        }
        return [member for member in self.members.get(cluster, []) if member not in heard]

    def answers(self, cluster: str) -> bool:
        """Whether a cluster's API does: most of its etcd's members have to."""
        members = self.members.get(cluster, [])
        return cluster not in self.unanswering and 2 * len(self.dead_members(cluster)) < len(
            members
        )

    def reset(self, metal: Metal) -> None:
        """Make it a host again that is nobody's node. Nobody in its cluster is told; with the
        last member, etcd and what the API lists are gone."""
        metal.node = metal.kubeadm = metal.kubelet = metal.server = ""
        cluster = metal.cluster
        members = self.members.get(cluster)
        if members is not None and not any(
            m.node and m.system_id in members for m in self.machines
        ):
            del self.members[cluster]
            self.nodes.pop(cluster, None)

    def servers(self, cluster: str) -> list[Metal]:
        """The machines on which the API servers of a cluster run."""
        return [metal for metal in self.machines if metal.cluster == cluster and metal.server]

    def give_back(self, metal: Metal) -> None:
        if metal.node:
            self.never_reset.append(f"{metal.system_id} was {metal.node}")
        self.reset(metal)
        metal.owner = metal.cluster = metal.status = ""
        metal.deployed, metal.powered = False, True


class MemoryMachines:
    """`domain.ports.MachinePool`."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def allocate(self, search: Search) -> Machine:
        slot = search.slot
        metal = self._world.held_by(slot.agent_name)
        if metal is None:
            fitting = [m for m in self._world.machines if slot.instance_type in ("", m.tag)]
            if not fitting:
                raise Invalid(f"no machine is tagged {slot.instance_type!r}")
            free = [m for m in fitting if not m.owner and m.system_id not in search.avoid]
            if not free:
                raise Unavailable(f"no machine is free for {slot.name}")
            metal = free[0]
            metal.owner, metal.cluster = slot.agent_name, slot.cluster_uid
            self._world.taken.append((slot.name, metal.system_id))
        return Machine(slot=slot, system_id=metal.system_id, status="Allocated")

    async def deploy(self, machine: Machine) -> Machine:
        self._world.metal(machine).deployed = True
        return machine.model_copy(update={"status": "Deploying"})

    async def deployed(self, machine: Machine) -> Machine | None:
        metal = self._world.metal(machine)
        if metal.sour:
            status = "Failed deployment"
            raise Failed(f"{metal.system_id}: {status}", facts={"status": status})
        return machine.model_copy(
            update={"status": "Deployed", "address": metal.address, "hostname": metal.system_id}
        )

    async def release(self, slot: Slot) -> None:
        metal = self._world.held_by(slot.agent_name)
        if metal is None:
            return
        if self._world.refusing:
            self._world.refusing -= 1
            raise Failed(f"{metal.system_id} is locked")
        self._world.give_back(metal)

    async def released(self, slot: Slot) -> bool:
        return self._world.held_by(slot.agent_name) is None

    async def sweep(self, mark: ClusterMark) -> tuple[str, ...]:
        for metal in self._world.machines:
            if metal.cluster == mark.uid:
                self._world.give_back(metal)
        return ()

    async def stock(self) -> Stock:
        tags: dict[str, int] = {}
        for metal in self._world.machines:
            tags[metal.tag] = tags.get(metal.tag, 0) + 1
        return Stock(machines=len(self._world.machines), tagged=tags)

    async def seen(self, machines: Sequence[Machine]) -> tuple[MachineSeen, ...]:
        known = {metal.system_id: metal for metal in self._world.machines}
        return tuple(
            MachineSeen(
                slot=machine.slot.name,
                system_id=metal.system_id,
                hostname=metal.system_id,
                status=metal.said,
                power="on" if metal.powered else "off",
                address=metal.address,
                ours=metal.owner == machine.slot.agent_name,
            )
            for machine in machines
            if (metal := known.get(machine.system_id))
        )


class MemoryEndpoints:
    """`domain.ports.Endpoints`."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def ensure(self, endpoint: Endpoint) -> None:
        self._world.names[endpoint.name] = endpoint.addresses

    async def remove(self, endpoint: Endpoint) -> None:
        self._world.names.pop(endpoint.name, None)


class MemoryNodes:
    """`domain.ports.Nodes`."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def reach(self, machine: Machine) -> bool:
        return self._world.metal(machine).deployed

    async def preflight(self, machine: Machine) -> None:
        self._world.metal(machine)

    async def initialise(self, joining: Joining) -> None:
        metal, cluster = self._world.metal(joining.machine), joining.machine.slot.cluster_uid
        if metal.node:
            return
        if joining.machine.address not in self._world.names.get(joining.endpoint, ()):
            raise Failed(f"{joining.endpoint} does not lead to {joining.machine.address}")
        self._world.kubeadm_runs.append(f"init {metal.system_id}")
        self._world.members[cluster] = [metal.system_id]
        self._world.configured[cluster] = joining.machine.slot.release.version
        self._become(joining.machine, metal)

    async def join(self, joining: Joining) -> None:
        metal, cluster = self._world.metal(joining.machine), joining.machine.slot.cluster_uid
        if metal.node:
            return
        if not self._world.members.get(cluster):
            raise Unavailable(f"no API answers for {cluster}")
        if joining.machine.slot.name in self._world.nodes[cluster]:
            raise Failed(f"{cluster} has a node {joining.machine.slot.name} already")
        self._refuse_a_newer_kubelet(joining.machine, joining.machine.slot.release.version)
        controls = joining.machine.slot.role is Role.CONTROL_PLANE
        if controls and (dead := self._world.dead_members(cluster)):
            raise Failed(f"etcd is not healthy: {', '.join(dead)} does not answer")
        self._world.kubeadm_runs.append(f"join {metal.system_id}")
        if controls:
            self._world.members[cluster].append(metal.system_id)
        self._become(joining.machine, metal)

    async def leave(self, joining: Joining) -> None:
        members = self._world.members.get(joining.machine.slot.cluster_uid, [])
        leaving, through = joining.machine.system_id, joining.through.system_id
        if leaving not in members:
            return
        if through not in members or through == leaving:
            raise Unavailable(f"{through} cannot take {leaving} out of etcd")
        members.remove(leaving)

    async def reset(self, machine: Machine) -> None:
        metal = self._world.held_by(machine.slot.agent_name)
        if metal is not None:
            self._world.reset(metal)

    async def foresee(self, upgrading: Upgrading) -> str:
        self._refuse_to_skip(upgrading)
        return f"{self._world.configured[upgrading.machine.slot.cluster_uid]} can go on"

    async def back_up(self, snapshot: Snapshot) -> str:
        self._world.snapshots[snapshot.name] = self._world.metal(snapshot.machine).server
        return f"memory/{snapshot.name}"

    async def upgrade(self, upgrading: Upgrading) -> None:
        world, cluster = self._world, upgrading.machine.slot.cluster_uid
        metal, version = world.metal(upgrading.machine), upgrading.release.version
        if not metal.node:
            raise Failed(f"{metal.system_id} is no node")
        if upgrading.lead:
            self._refuse_to_skip(upgrading)
            world.configured[cluster] = version
        elif world.configured[cluster] != version:
            raise Failed(f"{cluster} is configured for {world.configured[cluster]}")
        if metal.kubeadm != version:
            world.kubeadm_runs.append(f"upgrade {metal.system_id}")
        metal.kubeadm, metal.server = version, version if metal.server else ""

    async def renew_kubelet(self, upgrading: Upgrading) -> None:
        world, version = self._world, upgrading.release.version
        metal = world.metal(upgrading.machine)
        self._refuse_a_newer_kubelet(upgrading.machine, version)
        if metal.kubelet != version and metal.node not in world.cordoned:
            world.disturbed.append(metal.node)
        if metal.system_id in world.stuck:
            raise Failed(f"dpkg on {metal.system_id} is broken")
        if metal.kubeadm != version:
            raise Failed(f"kubeadm has not upgraded {metal.system_id} to {version}")
        metal.kubelet = version

    def _refuse_a_newer_kubelet(self, machine: Machine, kubelet: str) -> None:
        """A control plane's kubelet may be newer than the other servers: each goes with its own."""
        servers = self._world.servers(machine.slot.cluster_uid)
        own = [each for each in servers if each.system_id == machine.system_id]
        for each in own or servers:
            if Version.parse(each.server) < Version.parse(kubelet):
                raise Failed(f"kubelet {kubelet} is newer than the API server of {each.system_id}")

    def _refuse_to_skip(self, upgrading: Upgrading) -> None:
        cluster = upgrading.machine.slot.cluster_uid
        now = Version.parse(self._world.configured[cluster])
        to = Version.parse(upgrading.release.version)
        if dead := self._world.dead_members(cluster):
            raise Failed(f"etcd is not healthy: {', '.join(dead)} does not answer")
        if now != to and not reaches(now, to):
            raise Failed(f"{to} is too high or too low for {now}")

    async def inside(self, control_planes: Sequence[Machine]) -> Inside:
        cluster = control_planes[0].slot.cluster_uid
        dead = self._world.dead_members(cluster)
        names = {metal.system_id: metal.node for metal in self._world.machines if metal.node}
        if len(dead) == len(self._world.members.get(cluster, [])):
            return Inside(expires=self._world.expires)
        members = tuple(
            MemberSeen(name=names.get(member, member), answers=member not in dead)
            for member in self._world.members[cluster]
        )
        expires = self._world.expires
        return Inside(members=members, expires=expires, expires_on=control_planes[0].slot.name)

    def _become(self, machine: Machine, metal: Metal) -> None:
        metal.node = machine.slot.name
        metal.kubeadm = metal.kubelet = machine.slot.release.version
        if machine.slot.role is Role.CONTROL_PLANE:
            metal.server = metal.kubelet
        self._world.nodes.setdefault(machine.slot.cluster_uid, set()).add(machine.slot.name)


class MemoryApi:
    """`domain.ports.ClusterApi`."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def ready(self, node: Node) -> bool:
        return self._world.answers(node.slot.cluster_uid)

    async def install_network(self, node: Node) -> None:
        if not await self.ready(node):
            raise Unavailable(f"{node.endpoint} does not answer")

    async def node_ready(self, node: Node) -> str | None:
        metal = self._world.held_by(node.slot.agent_name)
        return metal.kubelet if metal and self._has(node) else None

    async def api_version(self, node: Node) -> str | None:
        servers = self._world.servers(node.slot.cluster_uid)
        there = [metal.server for metal in servers if metal.address in node.addresses[:1]]
        return there[0] if there else None

    async def observe(self, node: Node) -> tuple[NodeSeen, ...]:
        uid = node.slot.cluster_uid
        if not self._world.answers(uid):
            raise Unavailable(f"{node.endpoint} does not answer")
        runs = {
            metal.node: metal.kubelet
            for metal in self._world.machines
            if metal.cluster == uid and metal.powered and metal.node
        }
        return tuple(
            NodeSeen(
                name=name,
                readiness=Readiness.READY if name in runs else Readiness.UNKNOWN,
                reason="" if name in runs else "NodeStatusUnknown",
                kubelet=runs.get(name, node.slot.release.version),
                schedulable=name not in self._world.cordoned,
            )
            for name in sorted(self._world.nodes.get(uid, ()))
        )

    async def label(self, node: Node) -> None:
        if node.slot.name not in self._world.nodes.get(node.slot.cluster_uid, set()):
            raise NotFound(f"there is no node {node.slot.name}")

    async def cordon(self, node: Node) -> None:
        if self._has(node):
            self._world.cordoned.add(node.named)

    async def uncordon(self, node: Node) -> None:
        self._world.cordoned.discard(node.named)

    async def evict(self, node: Node) -> tuple[str, ...]:
        return tuple(self._world.pods.get(node.named, ())) if self._has(node) else ()

    def _has(self, node: Node) -> bool:
        return node.named in self._world.nodes.get(node.slot.cluster_uid, set())

    async def delete_node(self, node: Node) -> None:
        self._world.cordoned.discard(node.named)
        self._world.nodes.get(node.slot.cluster_uid, set()).discard(node.slot.name)
