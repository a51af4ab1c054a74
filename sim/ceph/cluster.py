"""What a simulated Ceph cluster holds, and what becomes of its data when parts of it are gone.

Requests set what is wanted; what is dead is decided from outside, by faults: `ceph osd.1` has that
OSD send no beacons, `ceph mons` has the manager hear no mon. A fault is met by each look."""

import secrets
import uuid
from collections import Counter
from collections.abc import Iterator

from pydantic import Field

from sim.faults import Faults
from sim.ledger import Ledger, Record
from sim.pace import Clock

GIB = 1024**3
NOTICED_SECONDS = 2.0
"""So long after an OSD has died its placement groups are shown as degraded."""
FEWEST_BYTES = 50 * 1024**2
"""What an empty OSD uses for itself."""

HOSTS = ("ceph-1", "ceph-2", "ceph-3")
OSDS_PER_HOST = 2
OSD_BYTES = 100 * GIB
RELEASE = "18.2.7"
LOOKS_PER_MOVE = 2
NAMES = {16: "pacific", 17: "quincy", 18: "reef", 19: "squid", 20: "tentacle"}


class Pool(Record):
    id: int
    name: str
    size: int = 3
    groups: int = 8
    kind: str = "replicated"
    applications: list[str] = Field(default_factory=list)
    most_bytes: int = 0
    objects: int = 0
    stored: int = 0
    flags: list[str] = Field(default_factory=lambda: ["hashpspool"])

    @property
    def full(self) -> bool:
        """Whether its quota is reached."""
        return 0 < self.most_bytes <= self.stored

    @property
    def min_size(self) -> int:
        return self.size - self.size // 2


class State(Record):
    """All that a cluster remembers."""

    fsid: str
    born: float
    changed: float
    epoch: int = 1
    pools: dict[str, Pool] = Field(default_factory=dict)
    next_pool: int = 1
    dead: dict[int, float] = Field(default_factory=dict)
    """OSDs that send no beacons, and since when somebody knows."""
    up_changed: float = 0
    """When that last changed. 0: never."""
    out: list[int] = Field(default_factory=list)
    """OSDs that no data is placed on."""
    version: str = RELEASE
    """What all daemons run, but for those that an upgrade has replaced already."""
    replaced: dict[str, str] = Field(default_factory=dict)
    """The version of each of these."""
    release: str = ""
    """The oldest that OSDs may be of. Empty: they were never upgraded."""
    renewing: str = ""
    """The version that daemons are replaced by ones of. Empty: none are."""
    paused: bool = False
    moving: int = 0
    """So many looks until all that has to be moved has been."""
    flags: list[str] = Field(default_factory=list)
    conf: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Settings by name and section."""
    users: dict[str, dict[str, str]] = Field(default_factory=dict)
    """The rights of an entity, by what they are for."""
    keys: dict[str, str] = Field(default_factory=dict)


FIRST_POOLS = {
    ".mgr": ("mgr", 2, 459_280),
    "cephfs.home.meta": ("cephfs", 22, 4_096),
    "cephfs.home.data": ("cephfs", 0, 0),
    ".rgw.root": ("rgw", 4, 1_386),
    "default.rgw.log": ("rgw", 177, 408),
    "default.rgw.control": ("rgw", 8, 0),
    "default.rgw.meta": ("rgw", 1, 1_560),
}
"""What there is before anybody asks for anything: whose it is, objects, bytes."""


class SimulatedCluster:
    """Three hosts with two OSDs each, three mons, two managers, a file system and two gateways."""

    def __init__(self, ledger: Ledger, faults: Faults, *, clock: Clock) -> None:
        self._ledger, self._faults, self._clock = ledger, faults, clock
        now = clock.now()
        known = ledger.recall("ceph", State).get("cluster")
        self.state = known or State(fsid=str(uuid.uuid4()), born=now, changed=now)
        if known is None:
            for name, (application, objects, stored) in FIRST_POOLS.items():
                self.create(name, applications=[application], objects=objects, stored=stored)

    def keep(self) -> None:
        self.state.epoch += 1
        self._ledger.keep("ceph", "cluster", self.state)

    @property
    def osds(self) -> range:
        return range(len(HOSTS) * OSDS_PER_HOST)

    def host(self, osd: int) -> str:
        return HOSTS[osd // OSDS_PER_HOST]

    def dead(self) -> frozenset[int]:
        """The OSDs that send no beacons. The map says when that last changed."""
        found = frozenset(osd for osd in self.osds if self._faults.meet(f"ceph osd.{osd}"))
        if found != self.state.dead.keys():
            now = self._clock.now()
            self.state.dead = {osd: self.state.dead.get(osd, now) for osd in sorted(found)}
            self.state.up_changed = now
            self.keep()
        return found

    def missed(self, dead: frozenset[int]) -> frozenset[int]:
        """Those of the dead whose copies count as missing: placement groups take some seconds to
        notice, and an OSD that is out has its copies elsewhere."""
        since = self._clock.now() - NOTICED_SECONDS
        return frozenset(osd for osd in dead if self.state.dead.get(osd, 0.0) <= since)

    def mark(self, osd: int, action: str) -> None:
        """Have data placed there, or there no more, which takes a while."""
        if action not in ("in", "out") or osd not in self.osds:
            return
        if (osd in self.state.out) is (action == "in"):
            self.state.moving = LOOKS_PER_MOVE
        others = [each for each in self.state.out if each != osd]
        self.state.out = sorted([*others, *([osd] if action == "out" else [])])
        self.keep()

    def look(self) -> None:
        """Time goes on while somebody looks, unless something holds it: `ceph move`."""
        if self.state.moving and self._faults.meet("ceph move") is None:
            self.state.moving -= 1

    def drained(self, osd: int) -> bool:
        """Whether nothing that lies on an OSD is missing elsewhere."""
        healthy = not any("degraded" in state for state in self.all_states(self.dead()))
        return osd in self.state.out and not self.state.moving and healthy

    def runs(self, daemon: str) -> str:
        return self.state.replaced.get(daemon, self.state.version)

    def banner(self, daemon: str) -> str:
        version = self.runs(daemon)
        return (
            f"ceph version {version} (6b0e988052ec84cf2d4a54ff9bbbc5e7) {_name(version)} (stable)"
        )

    @property
    def release(self) -> str:
        return self.state.release or _name(RELEASE)

    def renew(self, version: str) -> None:
        self.state.renewing, self.state.paused = version, False
        self.keep()

    def stop_renewing(self) -> None:
        """What was replaced stays so."""
        self.state.renewing, self.state.paused = "", False
        self.keep()

    @property
    def old(self) -> list[str]:
        """The daemons that are still to be replaced, in their order."""
        return [each for each in DAEMONS if self.runs(each) != self.state.renewing]

    def finds_image(self) -> bool:
        return self._faults.meet("ceph pull") is None

    def crashed(self) -> float | None:
        """How many seconds ago a daemon crashed, if one did: `ceph crash`."""
        fault = self._faults.meet("ceph crash")
        return fault.seconds if fault else None

    def replace(self) -> None:
        """A daemon is replaced while somebody looks, unless something holds it: `ceph upgrade`. The
        placement groups of an OSD take a while then, until all are well again."""
        state = self.state
        held = self._faults.meet("ceph upgrade") is not None or not self.finds_image()
        if not state.renewing or state.paused or held:
            return
        daemon, *rest = self.old
        state.replaced[daemon] = state.renewing
        if daemon.startswith("osd."):
            state.moving = LOOKS_PER_MOVE
        if not any(each.startswith("osd.") for each in rest):
            state.release = _name(state.renewing)
        if not rest:
            state.version, state.renewing, state.replaced = state.renewing, "", {}
        self.keep()

    def hears_mons(self) -> bool:
        return self._faults.meet("ceph mons") is None

    def create(
        self,
        name: str,
        *,
        groups: int = 8,
        size: int = 3,
        applications: list[str],
        objects: int = 0,
        stored: int = 0,
    ) -> Pool:
        """A pool. Numbers are never given out twice."""
        pool = Pool(
            id=self.state.next_pool,
            name=name,
            groups=groups,
            size=size,
            applications=applications,
            objects=objects,
            stored=stored,
        )
        self.state.next_pool += 1
        self.state.pools[name] = pool
        self.keep()
        return pool

    def authorise(self, entity: str, caps: dict[str, str]) -> None:
        self.state.users[entity] = caps
        self.state.keys.setdefault(entity, secrets.token_urlsafe(28))
        self.keep()

    def forget(self, entity: str) -> None:
        self.state.users.pop(entity, None)
        self.state.keys.pop(entity, None)
        self.keep()

    def deletes_pools(self) -> bool:
        """Whether every mon lets pools be deleted."""
        said = self.state.conf.get("mon_allow_pool_delete", {})
        wide = said.get("mon", said.get("global", "false"))
        return all(said.get(f"mon.{name}", wide) == "true" for name in MONS)

    def placed(self, dead: frozenset[int]) -> int:
        """On how many hosts there is an OSD to keep a copy."""
        lost = self.missed(dead)
        living = [osd for osd in self.osds if osd not in lost and osd not in self.state.out]
        return len({self.host(osd) for osd in living})

    def states(self, pool: Pool, dead: frozenset[int]) -> dict[str, int]:
        """The placement groups of a pool: where copies are missing, some serve, others do not."""
        copies = self.placed(dead)
        if copies >= pool.size:
            short = self.short(pool, dead)
            moving = 1 if self.state.moving and pool.groups - short > 1 else 0
            degraded = "active+undersized" + "+degraded" * bool(pool.objects)
            states = {
                "active+clean": pool.groups - short - moving,
                "active+remapped+backfilling": moving,
                degraded: short,
            }
            return {state: count for state, count in states.items() if count}
        serving = copies >= pool.min_size
        words = ["active"] * serving + ["undersized"] + ["degraded"] * bool(pool.objects)
        return {"+".join([*words, *(["peered"] * (not serving))]): pool.groups}

    def short(self, pool: Pool, dead: frozenset[int]) -> int:
        """How many placement groups of a pool miss a copy that nobody makes elsewhere yet: those
        with one on an OSD that is dead and still in."""
        lost = self.missed(dead) - set(self.state.out)
        return min(pool.groups, -(-pool.groups * pool.size * len(lost) // len(self.osds)))

    def missing_copies(self, dead: frozenset[int]) -> int:
        """Copies of objects that are not where they should be."""
        total = 0
        for pool in self.state.pools.values():
            if (without := pool.size - self.placed(dead)) > 0:
                total += pool.objects * without
            elif pool.groups:
                total += pool.objects * self.short(pool, dead) // pool.groups
        return total

    def all_states(self, dead: frozenset[int]) -> Counter[str]:
        total: Counter[str] = Counter()
        for pool in self.state.pools.values():
            total.update(self.states(pool, dead))
        return total

    def used(self) -> int:
        stored = sum(pool.stored * pool.size for pool in self.state.pools.values())
        return stored + FEWEST_BYTES * len(self.osds)

    def ours(self) -> dict[str, list[str]]:
        """What somebody has made here since the beginning."""
        pools = [name for name, pool in self.state.pools.items() if _marks(pool.applications)]
        switches = self.state.conf.get("mon_allow_pool_delete", {})
        return {"pools": pools, "users": sorted(self.state.users), "switches": sorted(switches)}

    def violations(self) -> Iterator[str]:
        """What must never be so, whatever happened."""
        marked = [mark for pool in self.state.pools.values() for mark in _marks(pool.applications)]
        for mark, count in Counter(marked).items():
            if count > 1:
                yield f"{count} pools carry {mark}"
        for name, pool in self.state.pools.items():
            if len(_marks(pool.applications)) > 1:
                yield f"pool {name} has two owners"


MONS = ("a", "b", "c")
MANAGERS = ("x", "y")
DAEMONS = (
    *(f"mgr.{name}" for name in MANAGERS),
    *(f"mon.{name}" for name in MONS),
    *(f"osd.{osd}" for osd in range(len(HOSTS) * OSDS_PER_HOST)),
    *(f"{kind}.{name}" for kind in ("mds", "rgw") for name in MONS[: len(MANAGERS)]),
)
"""In the order in which an upgrade replaces them."""


def _name(version: str) -> str:
    """What a release is called."""
    return NAMES.get(int(version.partition(".")[0]), "")


def _marks(applications: list[str]) -> list[str]:
    return [each for each in applications if each.startswith("windlass.")]
