"""A Ceph cluster in process, for saga tests: the same promises, without a wire."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from domain.share import OWNER
from domain.storage import Capacity, Check, Light, Manager, Mon, Mons, Observation, Osd, Osds, Pool
from domain.storage_plan import OsdMark, Renewal

GROUPS = 8
DAEMONS = 4
"""Those that an upgrade replaces."""


@dataclass
class MemoryCeph:
    """Six OSDs on three hosts, and a pool of three copies. What moves, moves while it is looked
    at."""

    outside: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    moving: int = 0
    """So many looks until all that has to be moved has been."""
    moves: int = 1
    """How many that is after each mark."""
    marks: list[str] = field(default_factory=list)
    """Every mark that changed anything."""
    used: float = 0.1

    pools: dict[str, str] = field(default_factory=dict)
    """Those that were made, and whose each is."""
    numbers: list[str] = field(default_factory=lambda: ["", "first"])
    """Every pool there ever was: where it stands here is its number."""

    modules: tuple[str, ...] = ("cephadm", "dashboard")
    version: str = "18.2.7"
    stray: str = ""
    """What daemons run that an upgrade has left behind."""
    checks: tuple[Check, ...] = ()
    renewing: str = ""
    """To which version it is being upgraded."""
    renewing_paused: bool = False
    renewed: int = 0
    """How many of its daemons run it already."""
    stuck: int = -1
    """After so many no further one is replaced. -1: all are."""
    begun: list[str] = field(default_factory=list)
    """Every upgrade that was begun anew."""

    def renew(self, version: str) -> None:
        there = self.version if not self.stray else ""
        if version not in (there, self.renewing):
            self.renewing, self.renewed = version, 0
            self.begun.append(version)
        self.renewing_paused = False

    def renewal(self) -> Renewal:
        """A daemon is replaced with each look."""
        if self.renewing and not self.renewing_paused and self.renewed != self.stuck:
            self.renewed += 1
            if self.renewed >= DAEMONS:
                self.version, self.renewing, self.stray = self.renewing, "", ""
        return Renewal(
            version=self.version,
            running=bool(self.renewing),
            paused=self.renewing_paused,
            image=f"ceph:v{self.renewing}",
            done=self.renewed,
            total=DAEMONS,
            versions=self.versions,
        )

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(sorted({self.version, self.stray or self.version}))

    def number(self, name: str) -> int:
        return len(self.numbers) - 1 - self.numbers[::-1].index(name)

    def seen(self) -> Observation:
        osds = tuple(
            Osd(id=id, up=id not in self.dead, inside=id not in self.outside, host=f"h{id // 2}")
            for id in range(6)
        )
        hosts = {osd.host for osd in osds if osd.up and osd.inside}
        state = "active+clean" if len(hosts) >= 3 else "active+undersized+degraded"
        if len(hosts) < 2:
            state = "undersized+degraded+peered"
        elif self.moving:
            state = "active+remapped+backfilling"
            self.moving -= 1
        first = Pool(id=1, name="first", size=3, min_size=2, domain="host", states={state: GROUPS})
        made = [
            Pool(
                id=self.number(name),
                name=name,
                size=3,
                min_size=2,
                domain="host",
                applications=("rbd", f"{OWNER}{owner}"),
            )
            for name, owner in self.pools.items()
        ]
        return Observation(
            at=datetime.now(UTC),
            live=True,
            version=self.version,
            mons=Mons(all=tuple(Mon(name=each, in_quorum=True) for each in "abc")),
            modules=self.modules,
            manager=Manager(active="x", standbys=("y",)),
            fsid="memory",
            light=Light.WARN if self.checks else Light.OK,
            checks=self.checks,
            versions=self.versions,
            osds=Osds(all=osds),
            pools=(first, *made),
            states={state: GROUPS},
            capacity=Capacity(used=int(self.used * 600), total=600, used_ratio=self.used),
        )

    def mark(self, mark: OsdMark) -> None:
        (self.outside.discard if mark.inside else self.outside.add)(mark.id)
        self.marks.append(f"{mark.named} {mark.word}")
        self.moving = self.moves

    def drained(self, osd: int) -> bool:
        return osd in self.outside and not self.moving
