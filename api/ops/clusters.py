"""The clusters service: how they are, live."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from api.asking import Context
from api.ops import views
from protos.gen.ops import clusters_pb2 as pb
from protos.gen.ops.clusters_pb2_grpc import ClustersServicer
from store.following import Following


class Clusters(ClustersServicer):
    def __init__(self, following: Following) -> None:
        self._following = following

    async def Watch(
        self, request: pb.WatchClusterRequest, context: Context
    ) -> AsyncIterator[pb.ClusterView]:
        async with aclosing(self._following.follow(views.name(request.name))) as seen:
            async for view in seen:
                yield views.cluster(view)
