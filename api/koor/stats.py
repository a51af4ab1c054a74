"""The statistics of a Ceph cluster, from what was last seen of it. Nobody waits for Ceph here."""

from datetime import UTC, datetime
from typing import NamedTuple

from api.asking import REQUEST_ID, Context, running
from api.koor import convert
from api.koor.newest import Newest
from domain.errors import Conflict, NotFound
from domain.koor_cluster import Care, koor_cluster
from domain.radar import radar
from domain.storage import Light, Source
from domain.storage_look import Look, deployments, nodes, parts, resources, unknown
from protos.gen.koor.api.services.stats import stats_pb2 as pb
from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceServicer

CLUSTER = "windlass-ceph"
"""The metadata that names the cluster meant, for those who would be sure."""

OBSERVED_AT = "windlass-observed-at"
"""The metadata beside a reply that says how old it is."""

SOURCE = "windlass-source"
"""That which says who saw it: `rest`, the manager; `cli`, the mons alone; `none`, it is old."""

INCOMPLETE = "windlass-incomplete"
"""That which names the kinds that we may not list."""


UNKNOWN = "windlass-unknown"
"""That which names the figures that nobody can tell at the moment; in the reply they are unset, or
0 where a field has no other way to be."""

AGES = "windlass-ages"
"""That which says when each of these was last seen: NAME=TIME, by commas."""


class View(NamedTuple):
    """What a call is answered from."""

    name: str
    look: Look
    light: Light
    source: Source


class StatsService(StatsServiceServicer):
    def __init__(self, newest: Newest | None, care: Care) -> None:
        """None: there is no Ceph cluster here."""
        self._newest = newest
        self._care = care

    async def GetClusterStats(
        self, request: pb.GetClusterStatsRequest, context: Context
    ) -> pb.GetClusterStatsResponse:
        view = await self._view(context)
        return pb.GetClusterStatsResponse(stats=convert.stats(view.look.observation, view.light))

    async def GetClusterResources(
        self, request: pb.GetClusterResourcesRequest, context: Context
    ) -> pb.GetClusterResourcesResponse:
        view = await self._view(context)
        if view.look.home and (kinds := view.look.home.incomplete):
            self._beside(context, view, (INCOMPLETE, ",".join(kinds)))
        return pb.GetClusterResourcesResponse(
            resources=map(convert.resource, resources(view.name, view.look, view.light)),
            deployments=map(convert.resource, deployments(view.name, view.look, view.light)),
        )

    async def GetClusterNodes(
        self, request: pb.GetClusterNodesRequest, context: Context
    ) -> pb.GetClusterNodesResponse:
        view = await self._view(context)
        return pb.GetClusterNodesResponse(nodes=map(convert.node, nodes(view.look, view.light)))

    async def GetClusterRadar(
        self, request: pb.GetClusterRadarRequest, context: Context
    ) -> pb.GetClusterRadarResponse:
        view = await self._view(context)
        found = [node.standing for node in nodes(view.look, view.light)]
        how = self._care.stability
        missing = unknown(view.look)
        figures = radar(view.look.observation, view.light, found, parts(view.look), how, missing)
        if names := convert.unknown_figures(figures):
            self._beside(context, view, (UNKNOWN, ",".join(names)))
        return pb.GetClusterRadarResponse(radar=convert.radar(figures))

    async def GetKoorCluster(
        self, request: pb.GetKoorClusterRequest, context: Context
    ) -> pb.GetKoorClusterResponse:
        view = await self._view(context)
        found = koor_cluster(view.name, view.look, self._care)
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
        seen, now = await newest.seen(), datetime.now(UTC)
        view = View(newest.cluster, seen.shown, seen.light(now), seen.source(now))
        self._beside(context, view)
        return view

    def _beside(self, context: Context, view: View, *more: tuple[str, str]) -> None:
        """Tell how old all of it is, and what else is to be known."""
        at = view.look.observation.at.isoformat(timespec="milliseconds")
        own = ((REQUEST_ID, running().request_id), (OBSERVED_AT, at), (SOURCE, view.source.value))
        named = dict((*_ages(view.look), *more))
        context.set_trailing_metadata((*own, *named.items()))


def _ages(look: Look) -> list[tuple[str, str]]:
    """What is unknown, and since when: as a figure that is not told cannot tell its own age."""
    ages = {figure: look.observation.ages[figure] for figure in sorted(unknown(look))}
    if not ages:
        return []
    told = [f"{name}={at.isoformat(timespec='milliseconds')}" for name, at in ages.items()]
    return [(UNKNOWN, ",".join(ages)), (AGES, ",".join(told))]
