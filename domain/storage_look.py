"""One look at a Ceph cluster with all that was asked, and what is shown of it."""

from datetime import datetime, timedelta

from domain import reliability, storage_resources
from domain.frozen import Frozen
from domain.reliability import Score
from domain.storage import Figure, Light, Observation, Source
from domain.storage_home import Deployed, Home
from domain.storage_resources import Resource, Standing, StorageNode

STALE_AFTER = 3
"""So many intervals without news, and nobody knows any more how it is."""


class Look(Frozen):
    observation: Observation
    home: Home | None = None
    """None: it belongs to no Kubernetes that we know of, or that gave no answer."""


class Seen(Frozen):
    """The newest look at a cluster, and how old that may be."""

    cluster: str
    look: Look
    every: timedelta
    """How often it is looked."""
    trouble: str = ""
    """Why the last look failed."""

    def light(self, now: datetime) -> Light:
        """What to show. Old news, and news of a manager that hears no mon, are none."""
        return self.look.observation.light if self._is_news(now) else Light.OFFLINE

    def source(self, now: datetime) -> Source:
        """Whose word that is."""
        return self.look.observation.source if self._is_news(now) else Source.NOBODY

    @property
    def shown(self) -> Look:
        """What to show. A manager that gave no answer to the last look is gone, until it does."""
        if not self.trouble or self.look.observation.manager.silent:
            return self.look
        seen = self.look.observation
        manager = seen.manager.model_copy(update={"silent": True})
        observation = seen.model_copy(update={"manager": manager})
        return self.look.model_copy(update={"observation": observation})

    def _is_news(self, now: datetime) -> bool:
        observation = self.look.observation
        return observation.live and now - observation.at <= STALE_AFTER * self.every


def nodes(look: Look, light: Light) -> list[StorageNode]:
    """The machines that it runs on, by name: nodes of its Kubernetes, or else its hosts."""
    found = [each.node for each in look.home.members if each.stores] if look.home else []
    return found or storage_resources.nodes(look.observation, light)


def resources(name: str, look: Look, light: Light) -> list[Resource]:
    """Rook's own where there is Rook, or else what they would be."""
    seen, home = look.observation, look.home
    if home is None or not home.is_rook:
        return storage_resources.resources(name, seen, light)
    return [_scored(each, seen) for each in home.resources]


def deployments(name: str, look: Look, light: Light) -> list[Resource]:
    """Every deployment beside Rook, or else the groups of daemons."""
    seen, home = look.observation, look.home
    if home is None or not home.is_rook:
        return storage_resources.daemons(name, seen, light)
    return [
        storage_resources.capped(
            Resource(
                api_version="apps/v1",
                kind="Deployment",
                namespace=home.namespace,
                name=each.name,
                standing=each.standing,
                wanted=each.wanted,
                score=_of_group(each, home, seen),
            )
        )
        for each in home.deployments
    ]


def unknown(look: Look) -> frozenset[Figure]:
    """What nobody can tell at the moment. Nodes of a Kubernetes are its own to tell."""
    at_home = {Figure.HOSTS} if look.home and any(it.stores for it in look.home.members) else set()
    return frozenset(look.observation.ages) - at_home


def parts(look: Look) -> list[Score]:
    """Everything whose loss would be noticed."""
    driver = look.home.provisioners if look.home else []
    return [*reliability.parts(look.observation), *([min(driver)] if driver else [])]


def _scored(it: Resource, seen: Observation) -> Resource:
    """What Rook calls by a name, Ceph does too."""
    scores: dict[tuple[str, str], Score] = {
        **{("CephBlockPool", each.name): reliability.pool(each) for each in seen.pools},
        **{
            ("CephFilesystem", each.name): reliability.file_system(each, seen)
            for each in seen.file_systems
        },
        **{
            ("CephObjectStore", zone): reliability.object_store(zone, ready, seen)
            for zone, ready in reliability.zones(seen.gateways).items()
        },
    }
    known = reliability.cluster(seen) if it.kind == "CephCluster" and it.name else None
    score = scores.get((it.kind, it.name), known)
    if not seen.knows(*NEEDED.get(it.kind, ())):
        score = None
    full = it.kind == "CephBlockPool" and any(
        each.full for each in seen.pools if each.name == it.name
    )
    update = {"score": score, **({"standing": Standing.NOT_READY} if full else {})}
    return storage_resources.capped(it.model_copy(update=update))


NEEDED: dict[str, tuple[Figure, ...]] = {
    "CephCluster": reliability.PLACES,
    "CephFilesystem": (Figure.FILE_SYSTEMS,),
    "CephObjectStore": (Figure.GATEWAYS,),
}
"""What has to be known to score these kinds."""


def _of_group(it: Deployed, home: Home, seen: Observation) -> Score | None:
    """Rook runs every mon and every OSD as a deployment of one, so their group is scored; whatever
    is one by design is well while it is ready."""
    ready = sum(each.ready for each in home.deployments if each.group == it.group)
    match it.group:
        case "rook-ceph-mon":
            return reliability.mons(seen.mons.all)
        case "rook-ceph-osd":
            return reliability.osds(seen) if seen.knows(*reliability.PLACES) else None
        case "rook-ceph-mds" if not seen.knows(Figure.FILE_SYSTEMS):
            return None
        case "rook-ceph-mds":
            scores = [
                reliability.metadata_servers(each, seen.standbys) for each in seen.file_systems
            ]
            return min(scores, default=Score.NONE)
        case "rook-ceph-mgr" | "rook-ceph-rgw" | "csi-rbdplugin-provisioner":
            return reliability.pair(ready)
        case "csi-cephfsplugin-provisioner":
            return reliability.pair(ready)
    return Score.OK if it.standing is Standing.READY else Score.DEGRADED
