"""What was seen of a Ceph cluster. Facts, and the few counts that follow from them.

`domain/storage_answers.py` reads them out of what the manager answers, `domain/reliability.py` and
`domain/radar.py` say what they mean. A light that shines says nothing by itself: it is worth as
much as the look is young and its source alive, and that is what `Seen` in
`domain/storage_look.py` is for."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import FiniteFloat

from domain.frozen import Frozen


class Light(StrEnum):
    """Ceph's word for its health, and one of ours for having no news."""

    OK = "HEALTH_OK"
    WARN = "HEALTH_WARN"
    ERR = "HEALTH_ERR"
    OFFLINE = "HEALTH_OFFLINE"


class Source(StrEnum):
    """Who said what was seen, in the words of the koor contract."""

    MANAGER = "rest"
    MONS = "cli"
    NOBODY = "none"
    """All of it is old."""


class Figure(StrEnum):
    """What can be known, or not, by itself."""

    FILE_SYSTEMS = "file-systems"
    GATEWAYS = "gateways"
    GROUPS = "placement-groups"
    OBJECTS = "objects"
    CAPACITY = "capacity"
    RATES = "rates"
    HOSTS = "hosts"
    VERSIONS = "versions"
    OSDS = "osds"


class Check(Frozen):
    """A health check that fails."""

    code: str
    light: Light
    says: str
    muted: bool = False
    latest: datetime | None = None
    """When what it tells of happened last, where it says so: the crash of a daemon."""


class Mon(Frozen):
    name: str
    in_quorum: bool
    host: str = ""
    """The address it listens on, without the port."""


class Mons(Frozen):
    all: tuple[Mon, ...] = ()
    created: datetime | None = None
    changed: datetime | None = None

    @property
    def quorum(self) -> tuple[str, ...]:
        return tuple(mon.name for mon in self.all if mon.in_quorum)


class Manager(Frozen):
    active: str = ""
    standbys: tuple[str, ...] = ()
    since: datetime | None = None
    """When the active one last changed."""
    silent: bool = False
    """Whether it gave no answer, whatever the mons think: they miss it half a minute later."""


class FileSystem(Frozen):
    """A CephFS. Its map is no proof of life: a rank whose daemon died without a successor goes on
    being up, and only a beacon that is late tells."""

    name: str
    ranks: int
    """Wanted."""
    up: int
    """Of those, the ones whose daemon reports."""
    broken: bool = False
    """Whether a rank failed, is damaged, or has a daemon that does not report."""
    replaying: int = 0
    """Daemons that follow a rank, ready to take over at once."""
    pools: tuple[int, ...] = ()


class Osd(Frozen):
    id: int
    up: bool
    inside: bool
    """Whether data is placed on it: `in`, as Ceph says."""
    host: str = ""
    address: str = ""
    weight: FiniteFloat = 1.0


class Osds(Frozen):
    all: tuple[Osd, ...] = ()
    up_changed: datetime | None = None
    in_changed: datetime | None = None
    flags: tuple[str, ...] = ()
    """Set by people: `noout` and its like."""


class Gateway(Frozen):
    """An object gateway that serves."""

    name: str
    host: str
    zone: str


class Pool(Frozen):
    id: int
    name: str
    size: int
    """Copies, or data and coding chunks together."""
    min_size: int
    data_chunks: int = 0
    """0: it is replicated."""
    domain: str = ""
    """What no two copies share: `host`, `osd`."""
    states: Mapping[str, int] = {}
    """Placement groups by state."""
    stored: int = 0
    objects: int = 0
    most_bytes: int = 0
    """Its quota. 0: none."""
    applications: tuple[str, ...] = ()
    full: bool = False
    """Whether it takes no more: its quota is reached, or the OSDs under it are full."""

    @property
    def coding_chunks(self) -> int:
        return self.size - self.data_chunks if self.data_chunks else 0


class Capacity(Frozen):
    """Raw bytes, before replication."""

    used: int = 0
    available: int = 0
    total: int = 0
    used_ratio: FiniteFloat = 0.0


class Rates(Frozen):
    """What clients do, per second."""

    bytes_read: int = 0
    bytes_written: int = 0
    reads: int = 0
    writes: int = 0


class Host(Frozen):
    name: str
    address: str = ""
    services: tuple[str, ...] = ()
    """Which kinds of daemons run there: `mon`, `osd`."""
    away: bool = False
    """Whether an orchestrator says that it does not answer."""


class Observation(Frozen):
    """One look at a Ceph cluster. Replies of GetClusterStats and of the radar are made of it."""

    at: datetime
    live: bool
    """Whether the manager hears the mons. Without them it goes on showing what it knew last."""
    version: str
    fsid: str
    light: Light
    source: Source = Source.MANAGER
    checks: tuple[Check, ...] = ()
    """The worst first."""
    modules: tuple[str, ...] = ()
    """Of the manager, those that are switched on."""
    mons: Mons = Mons()
    manager: Manager = Manager()
    file_systems: tuple[FileSystem, ...] = ()
    standbys: int = 0
    """Metadata servers that wait for any file system."""
    osds: Osds = Osds()
    active_gateways: int = 0
    """As Ceph's service map counts them, a minute late."""
    gateways: tuple[Gateway, ...] = ()
    pools: tuple[Pool, ...] = ()
    states: Mapping[str, int] = {}
    """Placement groups of all pools, by state."""
    objects: int = 0
    capacity: Capacity = Capacity()
    rates: Rates = Rates()
    hosts: tuple[Host, ...] = ()
    versions: tuple[str, ...] = ()
    """Those that daemons run, each once, the oldest first. Empty: nobody tells."""
    release: str = ""
    """The oldest that OSDs may be of, by its name: `reef`."""
    ages: Mapping[Figure, datetime] = {}
    """Of the figures that the present source cannot tell, when they were last seen. All others were
    seen `at`."""

    def knows(self, *figures: Figure) -> bool:
        """Whether the present source can tell these. What it cannot is shown as unknown: what they
        were is no news, however recent the look."""
        return self.ages.keys().isdisjoint(figures)

    def seen_at(self, figure: Figure) -> datetime:
        return self.ages.get(figure, self.at)

    @property
    def managers(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.manager.active, *self.manager.standbys)))

    @property
    def metadata_servers_up(self) -> int:
        return sum(each.up for each in self.file_systems)

    @property
    def hot_standbys(self) -> int:
        return self.standbys + sum(each.replaying for each in self.file_systems)

    @property
    def stored(self) -> int:
        return sum(pool.stored for pool in self.pools)

    @property
    def inactive(self) -> int:
        """Placement groups that serve nobody. The health checks miss them for up to a minute."""
        return count(self.states, lambda words: "active" not in words)

    @property
    def clean(self) -> int:
        """Placement groups that are just `active+clean`."""
        return sum(pool.states.get("active+clean", 0) for pool in self.pools)


def count(states: Mapping[str, int], is_meant: Callable[[frozenset[str]], bool]) -> int:
    """Placement groups of whose states' words that is true."""
    return sum(number for state, number in states.items() if is_meant(frozenset(state.split("+"))))
