"""A Ceph cluster as a whole that is looked after: what it has, and which versions run."""

from domain.frozen import Frozen
from domain.storage import Observation

MONITORING, DASHBOARD = "prometheus", "dashboard"
"""The manager's modules by which it is watched, by programs and by people."""

FEWEST_NODES = 4
FEWEST_BYTES = 500 * 10**9
FEWEST_CPUS = 19.0
FEWEST_MEMORY = 44 * 10**9


class Totals(Frozen):
    """What all nodes have together. None: nobody can tell."""

    nodes: int
    storage_bytes: int
    cpus: float | None = None
    memory_bytes: int | None = None

    @property
    def enough(self) -> bool:
        """Whether that is the least that a cluster is recommended to have."""
        return (
            self.nodes >= FEWEST_NODES
            and self.storage_bytes >= FEWEST_BYTES
            and (self.cpus or 0) >= FEWEST_CPUS
            and (self.memory_bytes or 0) >= FEWEST_MEMORY
        )


class KoorCluster(Frozen):
    name: str
    monitored: bool
    dashboard: bool
    totals: Totals
    ceph: str
    """The version that the manager runs."""


def koor_cluster(name: str, seen: Observation) -> KoorCluster:
    return KoorCluster(
        name=name,
        monitored=MONITORING in seen.modules,
        dashboard=DASHBOARD in seen.modules,
        totals=Totals(nodes=len(seen.hosts), storage_bytes=seen.capacity.total),
        ceph=seen.version,
    )
