"""What must be so, worked out from what was accepted and from the world: a plain dictionary of
clusters, which knows nothing of how anything is done."""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field

from domain.cluster import Phase
from domain.errors import AlreadyExists, Conflict, DomainError, NotFound
from domain.naming import CONTROL_PLANE
from domain.operation import Operation
from domain.releases import CATALOGUE, Version
from domain.upgrades import reaches
from sim.world import MemoryWorld

Refusal = type[DomainError] | None
"""The kind of error with which a request is refused. None: it is accepted."""


@dataclass
class Known:
    """A cluster as its users know it."""

    control_planes: int
    pools: dict[str, int]
    """How many nodes are wanted of each pool."""
    operation: Operation
    """The latest that was accepted."""
    uid: str = ""
    endpoint: str = ""
    version: str = CATALOGUE.default
    pending: str = ""
    """The version that an upgrade was accepted for and has not reached."""
    upgrading: bool = False
    """Whether that is what its operation is about."""
    dropped: set[str] = field(default_factory=set)
    """Pools that are to go, of which it is not known yet whether they did."""
    deleting: bool = False
    busy: bool = True
    """Whether its operation is not known to have ended."""

    @property
    def wanted(self) -> Counter[str]:
        return Counter({CONTROL_PLANE: self.control_planes, **self.pools})


class Model:
    """All clusters there are, by name."""

    def __init__(self) -> None:
        self.clusters: dict[str, Known] = {}

    def ended(self, name: str, left: Set[str], *, well: bool, said: tuple[str, str]) -> None:
        """What ran on a cluster has ended, and these of its pools have places left. An upgrade that
        went well has reached its version; of any other it has to be `said` whether the cluster is
        left on its way, since one that had touched no node is forgotten."""
        known = self.clusters[name]
        known.busy = False
        if known.pending and ((known.upgrading and well) or said[0] == known.pending):
            known.version, known.pending = known.pending, ""
        elif known.upgrading:
            known.pending = said[1] and known.pending
        known.upgrading = False
        if known.deleting:
            del self.clusters[name]
            return
        for pool in known.dropped - left:
            del known.pools[pool]
        known.dropped.clear()

    def creating(self, name: str) -> Refusal:
        return AlreadyExists if name in self.clusters else None

    def deleting(self, name: str) -> Refusal:
        return None if name in self.clusters else NotFound

    def cancelling(self, name: str, *, busy: bool) -> Refusal:
        return None if busy and not self.clusters[name].deleting else Conflict

    def changing(self, name: str, world: MemoryWorld, *, busy: bool) -> Refusal:
        """Whether anything about a cluster may be changed now."""
        if name not in self.clusters:
            return NotFound
        return Conflict if busy or self.phase(name, world) is Phase.ERROR else None

    def upgrading(self, name: str, version: str, world: MemoryWorld, *, busy: bool) -> Refusal:
        if refused := self.changing(name, world, busy=busy):
            return refused
        known = self.clusters[name]
        if known.pending:
            return None if version == known.pending else Conflict
        whole = len(world.members[known.uid]) == known.control_planes
        one_on = reaches(Version.parse(known.version), Version.parse(version))
        return None if whole and one_on else Conflict

    def next_version(self, name: str) -> str:
        """Where an upgrade of a cluster leads that is not finished, or the next minor version."""
        known = self.clusters.get(name)
        if known is None:
            return CATALOGUE.default
        now = Version.parse(known.version)
        within = [
            v for each in CATALOGUE.releases if reaches(now, v := Version.parse(each.version))
        ]
        return known.pending or str(max(within, default=now))

    def repairing(
        self, name: str, places: Counter[str], world: MemoryWorld, *, busy: bool
    ) -> Refusal:
        """Whether a repair has anything to do, or nothing: it fills the places that have no node,
        but for those of pools that have more places than are wanted."""
        if name not in self.clusters:
            return NotFound
        known = self.clusters[name]
        if busy or not world.members.get(known.uid):
            return Conflict
        there = Counter(node.rpartition("-")[0] for node in world.nodes.get(known.uid, ()))
        lacking = [pool for pool in places if there[pool] < places[pool]]
        idle = [pool for pool in lacking if places[pool] > known.wanted[pool]]
        return Conflict if lacking and idle == lacking else None

    def resizing(self, name: str, pool: str) -> Refusal:
        return None if pool in self.clusters[name].pools else NotFound

    def adding(self, name: str, pool: str) -> Refusal:
        return AlreadyExists if pool in self.clusters[name].pools else None

    def phase(self, name: str, world: MemoryWorld) -> Phase:
        """What a cluster is when nothing runs on it: what its nodes make of it."""
        known = self.clusters[name]
        if not world.members.get(known.uid):
            return Phase.ERROR
        if known.pending:
            return Phase.DEGRADED
        there = Counter(node.rpartition("-")[0] for node in world.nodes.get(known.uid, ()))
        return Phase.RUNNING if there == +known.wanted else Phase.DEGRADED
