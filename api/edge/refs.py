"""What instances use on a cloudlet, and in a cluster instance. Nobody writes these by a call."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge.records import Records
from protos.gen.edge.refs_pb2 import CloudletRefs, ClusterRefs
from protos.gen.edge.refs_pb2_grpc import CloudletRefsApiServicer, ClusterRefsApiServicer


class CloudletRefsApi(CloudletRefsApiServicer):
    def __init__(self, refs: Records[CloudletRefs]) -> None:
        self._refs = refs

    def ShowCloudletRefs(
        self, request: CloudletRefs, context: Context
    ) -> AsyncIterator[CloudletRefs]:
        return self._refs.show(request)


class ClusterRefsApi(ClusterRefsApiServicer):
    def __init__(self, refs: Records[ClusterRefs]) -> None:
        self._refs = refs

    def ShowClusterRefs(self, request: ClusterRefs, context: Context) -> AsyncIterator[ClusterRefs]:
        return self._refs.show(request)
