"""The clusters service: how they are, live, and what each was made for."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from api.asking import Context, asked
from api.ops import views
from protos.gen.ops import clusters_pb2 as pb
from protos.gen.ops.clusters_pb2_grpc import ClustersServicer
from store import clusters as stores
from store.cluster_owners import ClusterOwners
from store.engine import Database
from store.following import Following
from store.secrets import Secrets
from store.watches import Watches


def clusters(database: Database, vault: Secrets) -> "Clusters":
    """The service over a database."""
    found = stores.Clusters(database, vault)
    following = Following(found, Watches(database))
    return Clusters(following, found, ClusterOwners(database))


class Clusters(ClustersServicer):
    def __init__(
        self, following: Following, clusters: stores.Clusters, owners: ClusterOwners
    ) -> None:
        self._following = following
        self._clusters = clusters
        self._owners = owners

    async def Watch(
        self, request: pb.WatchClusterRequest, context: Context
    ) -> AsyncIterator[pb.ClusterView]:
        async with aclosing(self._following.follow(views.name(request.name))) as seen:
            async for view in seen:
                yield views.cluster(view)

    async def ListOwners(
        self, request: pb.ListClusterOwnersRequest, context: Context
    ) -> pb.ListClusterOwnersResponse:
        found = await self._clusters.all()
        wanted = [each for each in found if request.name in ("", each.name)]
        return pb.ListClusterOwnersResponse(clusters=map(views.owner, wanted))

    async def Claim(self, request: pb.ClaimClusterRequest, context: Context) -> pb.ClusterOwner:
        name, tenant = views.name(request.name), asked(request).tenant
        return views.owner(await self._owners.claim(tenant, name, request.owner))
