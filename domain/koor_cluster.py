"""A Ceph cluster as a whole that is looked after: what it has, and which versions run."""

from domain.ceph_releases import KNOWN, newest
from domain.frozen import Frozen
from domain.radar import Stability
from domain.storage import Figure
from domain.storage_home import oldest
from domain.storage_look import Look
from domain.upgrade_policy import UpgradePolicy

MONITORING, DASHBOARD = "prometheus", "dashboard"
"""The manager's modules by which it is watched, by programs and by people."""

FEWEST_NODES = 4
FEWEST_BYTES = 500 * 10**9
FEWEST_CPUS = 19.0
FEWEST_MEMORY = 44 * 10**9


class Totals(Frozen):
    """What all nodes have together. None: nobody can tell."""

    nodes: int
    storage_bytes: int | None
    cpus: float | None = None
    memory_bytes: int | None = None

    @property
    def enough(self) -> bool:
        """Whether that is the least that a cluster is recommended to have."""
        return (
            self.nodes >= FEWEST_NODES
            and (self.storage_bytes or 0) >= FEWEST_BYTES
            and (self.cpus or 0) >= FEWEST_CPUS
            and (self.memory_bytes or 0) >= FEWEST_MEMORY
        )


class Care(Frozen):
    """How it is looked after: which versions are known, what is done about newer ones, and how
    stability is reckoned."""

    releases: tuple[str, ...] = KNOWN
    policy: UpgradePolicy = UpgradePolicy()
    stability: Stability = Stability.CHECKS


class KoorCluster(Frozen):
    name: str
    namespace: str
    monitored: bool
    dashboard: bool
    toolbox: bool
    uses_all_devices: bool
    totals: Totals
    ceph: str
    """The version that the manager runs."""
    latest: str
    """The newest version of Ceph that it can go to. Empty: none is newer."""
    policy: UpgradePolicy
    kube: str
    """The oldest kubelet's. Empty: it belongs to no Kubernetes that we know of."""


def koor_cluster(name: str, look: Look, care: Care) -> KoorCluster:
    seen, home = look.observation, look.home
    return KoorCluster(
        name=name,
        namespace=home.namespace if home else name,
        monitored=MONITORING in seen.modules,
        dashboard=DASHBOARD in seen.modules,
        toolbox=home.toolbox if home else False,
        uses_all_devices=home.uses_all_devices if home else False,
        totals=totals(look),
        ceph=seen.version,
        latest=newest(seen.version, care.releases),
        policy=care.policy,
        kube=oldest([each.kubelet for each in home.members]) if home else "",
    )


def totals(look: Look) -> Totals:
    """Of all nodes of its Kubernetes, or else of its hosts, whose processors nobody tells."""
    if look.home is None:
        seen = look.observation
        known = seen.knows(Figure.CAPACITY)
        return Totals(nodes=len(seen.hosts), storage_bytes=seen.capacity.total if known else None)
    members = look.home.members
    return Totals(
        nodes=len(members),
        storage_bytes=sum(each.storage_bytes for each in members),
        cpus=sum(each.cpus for each in members),
        memory_bytes=sum(each.memory_bytes for each in members),
    )
