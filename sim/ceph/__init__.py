"""A Ceph cluster to practise on: its manager's REST API, and a cluster behind it that breaks."""

from sim.ceph.cluster import SimulatedCluster
from sim.ceph.dashboard import PATH, USER, SimulatedCeph

__all__ = ["PATH", "USER", "SimulatedCeph", "SimulatedCluster"]
