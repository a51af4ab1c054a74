"""Following a cluster: how it is, and again whenever that has changed."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial

from domain.cluster import Cluster, Phase
from domain.errors import NotFound
from domain.frozen import Frozen
from domain.machine import SlotState
from store.clusters import Clusters
from store.patience import read_patiently
from store.watches import Watches

LOOK_SECONDS = 1.0
"""How late a follower is at most."""


class ClusterView(Frozen):
    """A cluster and its slots as they stand."""

    cluster: Cluster
    slots: tuple[SlotState, ...] = ()
    confirmed: datetime | None = None
    """When it was last seen that all of this is so."""


class Following:
    """Reads along. Those who follow at the same time share what can be read together."""

    def __init__(self, clusters: Clusters, watches: Watches) -> None:
        self._clusters = clusters
        self._watches = watches

    async def follow(self, name: str) -> AsyncGenerator[ClusterView, None]:
        """The cluster that has the name now, until it is gone. NotFound if there is none."""
        view = await self._view(name)
        uid = view.cluster.uid
        while True:
            yield view
            fresh = view
            while fresh == view:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    fresh = await read_patiently(partial(self._view, name))
                except NotFound:
                    break
            if fresh == view or fresh.cluster.uid != uid:  # gone, or another has its name
                gone = view.cluster.model_copy(update={"phase": Phase.GONE, "message": "deleted"})
                yield ClusterView(cluster=gone)
                return
            view = fresh

    async def _view(self, name: str) -> ClusterView:
        cluster = await self._clusters.get(name)
        nodes = await self._clusters.nodes(name)
        watched = await self._watches.watched(cluster.uid)
        confirmed = watched.confirmed if watched else None
        return ClusterView(cluster=cluster, slots=nodes.slots, confirmed=confirmed)
