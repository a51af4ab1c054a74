"""The statistics of a Ceph cluster, from what was last seen of it. Nobody waits for Ceph here."""

from datetime import UTC, datetime
from typing import NamedTuple

from api.asking import REQUEST_ID, Context, running
from api.koor import convert
from api.koor.newest import Newest
from domain.errors import Conflict, NotFound
from domain.koor_cluster import koor_cluster
from domain.radar import radar
from domain.storage import Light, Observation
from domain.storage_resources import Standing, daemons, nodes, resources
from protos.gen.koor.api.services.stats import stats_pb2 as pb
from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceServicer

CLUSTER = "windlass-ceph"
"""The metadata that names the cluster meant, for those who would be sure."""

OBSERVED_AT = "windlass-observed-at"
"""The metadata beside a reply that says how old it is."""


class View(NamedTuple):
    """What a call is answered from."""

    name: str
    seen: Observation
    light: Light


class StatsService(StatsServiceServicer):
    def __init__(self, newest: Newest | None) -> None:
        """None: there is no Ceph cluster here."""
        self._newest = newest

    async def GetClusterStats(
        self, request: pb.GetClusterStatsRequest, context: Context
    ) -> pb.GetClusterStatsResponse:
        view = await self._view(context)
        return pb.GetClusterStatsResponse(stats=convert.stats(view.seen, view.light))

    async def GetClusterResources(
        self, request: pb.GetClusterResourcesRequest, context: Context
    ) -> pb.GetClusterResourcesResponse:
        name, seen, light = await self._view(context)
        return pb.GetClusterResourcesResponse(
            resources=map(convert.resource, resources(name, seen, light)),
            deployments=map(convert.resource, daemons(name, seen, light)),
        )

    async def GetClusterNodes(
        self, request: pb.GetClusterNodesRequest, context: Context
    ) -> pb.GetClusterNodesResponse:
        view = await self._view(context)
        return pb.GetClusterNodesResponse(nodes=map(convert.node, nodes(view.seen, view.light)))

    async def GetClusterRadar(
        self, request: pb.GetClusterRadarRequest, context: Context
    ) -> pb.GetClusterRadarResponse:
        view = await self._view(context)
        found = nodes(view.seen, view.light)
        ready = sum(node.standing is Standing.READY for node in found)
        figures = radar(view.seen, view.light, ready=ready, nodes=len(found))
        return pb.GetClusterRadarResponse(radar=convert.radar(figures))

    async def GetKoorCluster(
        self, request: pb.GetKoorClusterRequest, context: Context
    ) -> pb.GetKoorClusterResponse:
        view = await self._view(context)
        found = koor_cluster(view.name, view.seen)
        return pb.GetKoorClusterResponse(koor_cluster=convert.koor_cluster(found))

    async def _view(self, context: Context) -> View:
        """What was last seen of the cluster that is meant, in the light that it may be shown in;
        and its age, told beside the reply."""
        newest = self._newest
        if newest is None:
            raise Conflict(
                "there is no Ceph cluster here",
                reason="STORAGE_NOT_CONFIGURED",
                do="set WINDLASS_CEPH__URLS to where its dashboards are",
            )
        meant = dict(context.invocation_metadata() or ()).get(CLUSTER, newest.cluster)
        if meant != newest.cluster:
            raise NotFound(
                f"there is no Ceph cluster {meant!r}, only {newest.cluster}",
                subject=str(meant),
                reason="STORAGE_NOT_FOUND",
                do=f"leave {CLUSTER} out",
            )
        seen = await newest.seen()
        at = seen.observation.at.isoformat(timespec="milliseconds")
        context.set_trailing_metadata(((REQUEST_ID, running().request_id), (OBSERVED_AT, at)))
        return View(newest.cluster, seen.observation, seen.light(datetime.now(UTC)))
