"""Kubernetes clusters, as hosts make them and API servers show them.

Read `clusters`, then `cluster`, which is one of them, and `authority`, which vouches for it."""

from sim.clusters.clusters import SimulatedClusters

__all__ = ["SimulatedClusters"]
