"""What there is in the world that `sim/memory.py` keeps its promises in: machines, names, nodes.

It remembers everything, so that a test can ask afterwards what was left behind."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from domain.errors import Failed
from domain.machine import Machine
from sim.ceph_memory import MemoryCeph


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
    dead: bool = False
    """Whatever is done to its power, it does not come up any more."""
    broken: str = ""
    """Why nobody is given it."""
    power_cycles: int = 0

    @property
    def runs(self) -> bool:
        return self.powered and not self.dead

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
    shut: set[str] = field(default_factory=set)
    """Those of them that people closed, and that nobody else opens."""
    marked: set[str] = field(default_factory=set)
    """Those that carry our mark, open or closed."""
    tainted: set[str] = field(default_factory=set)
    """The control planes that take none but their own."""
    pods: dict[str, list[str]] = field(default_factory=dict)
    """Pods by node that will not leave it, each with what holds it."""
    locked: set[str] = field(default_factory=set)
    """Machines, by their ids, that nobody can give back."""
    configured: dict[str, str] = field(default_factory=dict)
    """The version that each cluster's own configuration names."""
    networks: dict[str, str] = field(default_factory=dict)
    """The version that each cluster's pod network goes with."""
    snapshots: dict[str, str] = field(default_factory=dict)
    """Copies of etcd, by name, and the version of the API server that each was taken under."""
    disturbed: list[str] = field(default_factory=list)
    """Nodes whose kubelet was renewed under their pods: while they were open to more."""
    stuck: set[str] = field(default_factory=set)
    """Machines on which no other kubelet can be installed."""
    unanswering: set[str] = field(default_factory=set)
    """Clusters, by uid, whose API gives no answer, whatever their etcd says."""
    deaf: set[str] = field(default_factory=set)
    """Machines, by their ids, whose API server does not answer, whatever else runs there."""
    hanging: set[str] = field(default_factory=set)
    """Who takes every question of those who look and answers none: `api`, `machines`, `hosts`."""
    expires: datetime | None = None
    """When every certificate does."""
    admitted_until: datetime | None = None
    """Until when the kubeconfigs that are kept open anything."""
    evicted: list[str] = field(default_factory=list)
    """Nodes whose pods were asked to leave."""
    identities: dict[str, str] = field(default_factory=dict)
    """Who may use which pool."""
    supplied: dict[str, str] = field(default_factory=dict)
    """Which pool a cluster was told of, by its uid."""
    ceph: MemoryCeph = field(default_factory=MemoryCeph)
    """The cluster that they are in."""
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
    def pools(self) -> dict[str, str]:
        """Pools in Ceph, and whose each is."""
        return self.ceph.pools

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
        listed = [f"{uid} lists {on}" for uid, on in self.nodes.items()]
        pooled = [f"pool {name} is {owner}'s" for name, owner in self.pools.items()]
        using = [f"{entity} may use {pool}" for entity, pool in self.identities.items()]
        return owned + named + counted + listed + pooled + using

    @property
    def owners(self) -> list[str]:
        """The agent names of all slots that hold a machine."""
        return sorted(metal.owner for metal in self.machines if metal.owner)

    async def hang(self, who: str) -> None:
        """Keep whoever asks waiting, if that one hangs."""
        if who in self.hanging:
            await asyncio.Event().wait()

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
        heard = {m.system_id for m in self.machines if m.cluster == cluster and m.node and m.runs}
        return [member for member in self.members.get(cluster, []) if member not in heard]

    def answers(self, cluster: str) -> bool:
        """Whether a cluster's API does: most of its etcd's members have to."""
        members = self.members.get(cluster, [])
        return cluster not in self.unanswering and 2 * len(self.dead_members(cluster)) < len(
            members
        )

    def is_ready(self, cluster: str, name: str) -> bool:
        """Whether a node is listed and its machine runs."""
        runs = any(m.node == name and m.cluster == cluster and m.runs for m in self.machines)
        return runs and name in self.nodes.get(cluster, set())

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
            gone = self.nodes.pop(cluster, set())
            for known in (self.cordoned, self.shut, self.marked, self.tainted):
                known -= gone

    def servers(self, cluster: str) -> list[Metal]:
        """The machines on which the API servers of a cluster run."""
        return [metal for metal in self.machines if metal.cluster == cluster and metal.server]

    def give_back(self, metal: Metal) -> None:
        """It is powered off then, and on again when it is deployed: only a dead one stays off."""
        if metal.node and metal.runs:
            self.never_reset.append(f"{metal.system_id} was {metal.node}")
        self.reset(metal)
        metal.owner = metal.cluster = metal.status = ""
        metal.deployed, metal.powered = False, True
