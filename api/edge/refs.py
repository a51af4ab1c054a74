"""What instances use on a cloudlet, and in a cluster instance. Nobody writes these by a call."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge import instances
from api.edge.showing import Showing
from domain.standing import CloudletStanding, ClusterStanding
from protos.gen.edge import refs_pb2
from protos.gen.edge.refs_pb2_grpc import CloudletRefsApiServicer, ClusterRefsApiServicer
from store.cloudlet_refs import CloudletRefs, ClusterRefs


class CloudletRefsApi(CloudletRefsApiServicer):
    def __init__(self, refs: CloudletRefs) -> None:
        self._showing = Showing[CloudletStanding, refs_pb2.CloudletRefs](
            refs, instances.cloudlet_refs_message
        )

    def ShowCloudletRefs(
        self, request: refs_pb2.CloudletRefs, context: Context
    ) -> AsyncIterator[refs_pb2.CloudletRefs]:
        return self._showing.show(request)


class ClusterRefsApi(ClusterRefsApiServicer):
    def __init__(self, refs: ClusterRefs) -> None:
        self._showing = Showing[ClusterStanding, refs_pb2.ClusterRefs](
            refs, instances.cluster_refs_message
        )

    def ShowClusterRefs(
        self, request: refs_pb2.ClusterRefs, context: Context
    ) -> AsyncIterator[refs_pb2.ClusterRefs]:
        return self._showing.show(request)
