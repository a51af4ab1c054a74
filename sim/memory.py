"""The whole world in one process: what the ports promise, kept without a socket.

For tests of workflows, where each step may be the last, may run twice and may be where somebody
calls the work off. It answers at once, and the world remembers everything."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from domain.errors import Failed, Invalid, NotFound, Unavailable
from domain.machine import Machine, Role, Search, Slot
from domain.ports import (
    ClusterMark,
    Endpoint,
    Joining,
    Node,
    Snapshot,
    Spoilt,
    Stock,
    Supply,
    Upgrading,
)
from domain.releases import Version
from domain.seen import Inside, MachineSeen, MemberSeen, NodeSeen, Readiness
from domain.upgrades import reaches
from sim.world import MemoryWorld, Metal


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
            free = [m for m in fitting if not (m.owner or m.broken or m.system_id in search.avoid)]
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
        if metal.sour or metal.dead:
            status = "Failed deployment"
            raise Failed(f"{metal.system_id}: {status}", facts={"status": status})
        return machine.model_copy(
            update={"status": "Deployed", "address": metal.address, "hostname": metal.system_id}
        )

    async def power_off(self, machine: Machine) -> None:
        self._world.metal(machine).powered = False

    async def power_on(self, machine: Machine) -> None:
        metal = self._world.metal(machine)
        metal.power_cycles += not metal.powered
        metal.powered = True

    async def powered(self, machine: Machine) -> bool:
        return self._world.metal(machine).powered

    async def mark_broken(self, spoilt: Spoilt) -> None:
        metal = self._world.held_by(spoilt.machine.slot.agent_name)
        if metal is not None and metal.system_id == spoilt.machine.system_id:
            self._world.give_back(metal)
            metal.broken = spoilt.why

    async def release(self, slot: Slot) -> None:
        metal = self._world.held_by(slot.agent_name)
        if metal is None:
            return
        self._refuse_what_is_locked(metal)
        if self._world.refusing:
            self._world.refusing -= 1
            raise Failed(f"{metal.system_id} is locked")
        self._world.give_back(metal)

    async def released(self, slot: Slot) -> bool:
        return self._world.held_by(slot.agent_name) is None

    async def sweep(self, mark: ClusterMark) -> tuple[str, ...]:
        for metal in self._world.machines:
            if metal.cluster == mark.uid:
                self._refuse_what_is_locked(metal)
                self._world.give_back(metal)
        return ()

    def _refuse_what_is_locked(self, metal: Metal) -> None:
        if metal.system_id in self._world.locked:
            raise Failed(f"{metal.system_id} is locked")

    async def stock(self) -> Stock:
        tags: dict[str, int] = {}
        for metal in self._world.machines:
            tags[metal.tag] = tags.get(metal.tag, 0) + 1
        return Stock(machines=len(self._world.machines), tagged=tags)

    async def seen(self, machines: Sequence[Machine]) -> tuple[MachineSeen, ...]:
        await self._world.hang("machines")
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
        cluster, leaving = joining.machine.slot.cluster_uid, joining.machine.system_id
        members = self._world.members.get(cluster, [])
        if leaving not in members:
            return
        able = {*members}.difference({leaving}, self._world.dead_members(cluster))
        asked = [each.system_id for each in joining.guides]
        if able.isdisjoint(asked):
            raise Unavailable(f"{', '.join(asked)} cannot take {leaving} out of etcd")
        members.remove(leaving)

    async def reset(self, machine: Machine) -> None:
        metal = self._world.held_by(machine.slot.agent_name)
        if metal is not None and not metal.runs:
            raise Unavailable(f"{metal.system_id} does not answer SSH")
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

    async def see_through(self, upgrading: Upgrading) -> bool:
        return self._world.metal(upgrading.machine).kubelet == upgrading.release.version

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
        await self._world.hang("hosts")
        cluster = control_planes[0].slot.cluster_uid
        dead = self._world.dead_members(cluster)
        names = {metal.system_id: metal.node for metal in self._world.machines if metal.node}
        if len(dead) == len(self._world.members.get(cluster, [])):
            return Inside(expires=self._world.expires, admitted_until=self._world.admitted_until)
        members = tuple(
            MemberSeen(name=names.get(member, member), answers=member not in dead)
            for member in self._world.members[cluster]
        )
        return Inside(
            members=members,
            expires=self._world.expires,
            expires_on=control_planes[0].slot.name,
            admitted_until=self._world.admitted_until,
        )

    async def renew_access(self, control_planes: Sequence[Machine]) -> None:
        if not any(self._world.metal(machine).runs for machine in control_planes):
            raise Unavailable(f"{control_planes[0].named} does not answer SSH")
        self._world.admitted_until = datetime.now(UTC) + timedelta(days=365)

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
        self._world.networks[node.slot.cluster_uid] = node.slot.release.version

    async def supply(self, supply: Supply) -> None:
        uid = supply.node.slot.cluster_uid
        if not self._world.answers(uid):
            raise Unavailable(f"{supply.node.endpoint} does not answer")
        if self._world.identities.get(supply.identity.entity) != supply.made.wanted.name:
            raise Failed(f"{supply.identity.entity} may not use {supply.made.wanted.name}")
        self._world.supplied[uid] = supply.made.wanted.name

    async def node_ready(self, node: Node) -> str | None:
        if not self._world.answers(node.slot.cluster_uid):
            raise Unavailable(f"{node.endpoint} does not answer")
        if not self._world.is_ready(node.slot.cluster_uid, node.slot.name):
            return None
        metal = self._world.held_by(node.slot.agent_name)
        return metal.kubelet if metal else None

    async def api_version(self, node: Node) -> str | None:
        servers = self._world.servers(node.slot.cluster_uid)
        there = [metal.server for metal in servers if metal.address in node.addresses[:1]]
        return there[0] if there else None

    async def serves(self, node: Node) -> bool:
        return any(
            metal.address in node.addresses[:1]
            and metal.runs
            and metal.system_id not in self._world.deaf
            for metal in self._world.servers(node.slot.cluster_uid)
        )

    async def observe(self, node: Node) -> tuple[NodeSeen, ...]:
        await self._world.hang("api")
        uid = node.slot.cluster_uid
        if not self._world.answers(uid):
            raise Unavailable(f"{node.endpoint} does not answer")
        runs = {
            metal.node: metal.kubelet
            for metal in self._world.machines
            if metal.cluster == uid and metal.runs and metal.node
        }
        return tuple(
            NodeSeen(
                name=name,
                readiness=Readiness.READY if name in runs else Readiness.UNKNOWN,
                reason="" if name in runs else "NodeStatusUnknown",
                kubelet=runs.get(name, node.slot.release.version),
                schedulable=name not in self._world.cordoned,
                closed_by_us=name in self._world.marked,
            )
            for name in sorted(self._world.nodes.get(uid, ()))
        )

    async def label(self, node: Node) -> None:
        if node.slot.name not in self._world.nodes.get(node.slot.cluster_uid, set()):
            raise NotFound(f"there is no node {node.slot.name}")
        if node.slot.role is Role.CONTROL_PLANE:
            workless = self._has_no_workers(node) if node.workless is None else node.workless
            (self._world.tainted.discard if workless else self._world.tainted.add)(node.named)

    def _has_no_workers(self, node: Node) -> bool:
        uid = node.slot.cluster_uid
        members = self._world.members.get(uid, [])
        leads = {m.node for m in self._world.machines if m.system_id in members}
        return self._world.nodes.get(uid, set()) <= leads

    async def cordon(self, node: Node) -> None:
        if self._has(node):
            if node.named not in self._world.cordoned:
                self._world.marked.add(node.named)
            self._world.cordoned.add(node.named)

    async def uncordon(self, node: Node) -> None:
        if node.named not in self._world.shut:
            self._world.cordoned.discard(node.named)
            self._world.marked.discard(node.named)

    async def disown(self, node: Node) -> None:
        if node.named not in self._world.cordoned:
            self._world.marked.discard(node.named)

    async def evict(self, node: Node) -> tuple[str, ...]:
        if not self._has(node):
            return ()
        self._world.evicted.append(node.named)
        return tuple(self._world.pods.get(node.named, ()))

    def _has(self, node: Node) -> bool:
        return node.named in self._world.nodes.get(node.slot.cluster_uid, set())

    async def delete_node(self, node: Node) -> None:
        self._world.cordoned.discard(node.named)
        self._world.shut.discard(node.named)
        self._world.marked.discard(node.named)
        self._world.tainted.discard(node.named)
        self._world.nodes.get(node.slot.cluster_uid, set()).discard(node.slot.name)
