"""A Ceph cluster in process, for saga tests: the same promises, without a wire."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from domain.share import OWNER
from domain.storage import Capacity, Light, Observation, Osd, Osds, Pool
from domain.storage_plan import OsdMark

GROUPS = 8


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
            version="18.2.7",
            fsid="memory",
            light=Light.OK,
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
