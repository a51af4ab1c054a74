"""The parts of a Ceph cluster as resources: how each stands, and how much it can lose.

Where no Kubernetes runs the storage, the same kinds are made out of what was seen of it. Groups of
daemons take the place of deployments."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

from domain import reliability
from domain.frozen import Frozen
from domain.reliability import Score
from domain.storage import Figure, Host, Light, Observation, Pool, count

API_VERSION = "ceph"
GROUP = "DaemonGroup"


class Standing(StrEnum):
    """How a resource or a node is. UNKNOWN: nobody can say."""

    UNKNOWN = "unknown"
    READY = "ready"
    PROGRESSING = "progressing"
    NOT_READY = "not-ready"


class Resource(Frozen):
    api_version: str = API_VERSION
    kind: str
    namespace: str
    name: str
    standing: Standing
    wanted: int
    """Daemons or copies, whatever there is to be counted."""
    score: Score | None = None
    """None: nothing was seen."""


class StorageNode(Frozen):
    """A machine that storage runs on."""

    name: str
    standing: Standing
    roles: tuple[str, ...] = ()
    internal: str = ""
    external: str = ""
    created: datetime | None = None


STANDING: dict[Light, Standing] = {
    Light.OK: Standing.READY,
    Light.WARN: Standing.READY,
    Light.ERR: Standing.NOT_READY,
    Light.OFFLINE: Standing.UNKNOWN,
}
"""How the cluster as a whole stands."""


def resources(name: str, seen: Observation, light: Light) -> list[Resource]:
    """The cluster, its pools, its file systems and its object stores; by name within a kind."""
    made = [
        _made(
            "CephCluster",
            name,
            STANDING[light],
            len(seen.mons.all),
            reliability.cluster(seen) if seen.knows(*reliability.PLACES) else None,
        ),
        *(
            _made("CephBlockPool", it.name, _pool(it, seen), it.size, reliability.pool(it))
            for it in sorted(seen.pools, key=lambda it: it.name)
        ),
        *(
            _made(
                "CephFilesystem",
                it.name,
                _ready(it.up, it.ranks),
                it.ranks,
                reliability.file_system(it, seen),
                known=seen.knows(Figure.FILE_SYSTEMS),
            )
            for it in sorted(seen.file_systems, key=lambda it: it.name)
        ),
        *(
            _made(
                "CephObjectStore",
                zone,
                _ready(ready, ready),
                ready,
                reliability.object_store(zone, ready, seen),
                known=seen.knows(Figure.GATEWAYS),
            )
            for zone, ready in reliability.zones(seen.gateways).items()
        ),
    ]
    return [_placed(each, name, light) for each in made]


def daemons(name: str, seen: Observation, light: Light) -> list[Resource]:
    """The groups of daemons, by name."""
    made = sorted(_groups(seen), key=lambda each: each.name)
    return [_placed(each, name, light) for each in made]


def _groups(seen: Observation) -> Iterator[Resource]:
    mons, osds = seen.mons.all, seen.osds.all
    managers = bool(seen.manager.active) + len(seen.manager.standbys)
    up = sum(osd.up for osd in osds)
    in_quorum = len(seen.mons.quorum)
    yield _made(GROUP, "mon", _ready(in_quorum, len(mons)), len(mons), reliability.mons(mons))
    active = managers if seen.manager.active and not seen.manager.silent else 0
    yield _made(GROUP, "mgr", _ready(active, managers), managers, reliability.managers(seen))
    score = reliability.osds(seen) if seen.knows(*reliability.PLACES) else None
    known = seen.knows(Figure.OSDS)
    yield _made(GROUP, "osd", _ready(up, len(osds)), len(osds), score, known=known)
    known = seen.knows(Figure.FILE_SYSTEMS)
    for it in seen.file_systems:
        score = reliability.metadata_servers(it, seen.standbys)
        standing = _ready(it.up, it.ranks)
        yield _made(GROUP, f"mds.{it.name}", standing, it.ranks, score, known=known)
    known = seen.knows(Figure.GATEWAYS)
    for zone, ready in reliability.zones(seen.gateways).items():
        score = reliability.pair(ready)
        yield _made(GROUP, f"rgw.{zone}", _ready(ready, ready), ready, score, known=known)


def _made(
    kind: str,
    name: str,
    standing: Standing,
    wanted: int,
    score: Score | None,
    *,
    known: bool = True,
) -> Resource:
    """What the present source cannot know has neither standing nor score."""
    made = Resource(
        kind=kind,
        namespace="",
        name=name,
        standing=standing if known else Standing.UNKNOWN,
        wanted=wanted,
        score=score if known else None,
    )
    return capped(made)


def capped(it: Resource) -> Resource:
    """What is not ready is never quite reliable."""
    if it.standing is not Standing.NOT_READY or it.score is None:
        return it
    return it.model_copy(update={"score": min(it.score, Score.DEGRADED)})


def _placed(it: Resource, cluster: str, light: Light) -> Resource:
    """Within its cluster; without news of that nobody can say how it stands."""
    unknown = {"standing": Standing.UNKNOWN} if light is Light.OFFLINE else {}
    return it.model_copy(update={"namespace": cluster, **unknown})


def _ready(ready: int, wanted: int) -> Standing:
    """Nothing wanted is nothing ready."""
    return Standing.READY if 0 < wanted <= ready else Standing.NOT_READY


def _pool(it: Pool, seen: Observation) -> Standing:
    """One that takes no more is not ready, and one of whose groups nobody knows may not be."""
    if it.full:
        return Standing.NOT_READY
    if not seen.knows(Figure.GROUPS):
        return Standing.UNKNOWN
    inactive = count(it.states, lambda words: "active" not in words)
    return Standing.NOT_READY if inactive else Standing.READY


def nodes(seen: Observation, light: Light) -> list[StorageNode]:
    """The hosts of the cluster, by name. Where no orchestrator knows their addresses, their OSDs
    do."""
    return [_node(host, seen, light) for host in sorted(seen.hosts, key=lambda host: host.name)]


def _node(host: Host, seen: Observation, light: Light) -> StorageNode:
    osds = [osd for osd in seen.osds.all if osd.host == host.name]
    dead = bool(osds) and not any(osd.up for osd in osds)
    standing = Standing.NOT_READY if host.away or dead else Standing.READY
    if not dead and not seen.knows(Figure.HOSTS):
        standing = Standing.UNKNOWN
    return StorageNode(
        name=host.name,
        standing=Standing.UNKNOWN if light is Light.OFFLINE else standing,
        roles=host.services,
        internal=host.address or next((osd.address for osd in osds if osd.address), ""),
    )
