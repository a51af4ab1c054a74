"""Templates of clusters, which the contract calls clusters."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge import convert
from api.edge.records import Records
from domain.naming import AUTO_CLUSTER, is_template_name
from domain.refusal import Refusal, refuse_if
from protos.gen.edge.cluster_pb2 import Cluster
from protos.gen.edge.cluster_pb2_grpc import ClusterApiServicer
from protos.gen.edge.result_pb2 import Result


class ClusterApi(ClusterApiServicer):
    def __init__(self, templates: Records[Cluster]) -> None:
        self._templates = templates

    async def CreateCluster(self, request: Cluster, context: Context) -> Result:
        refuse_if(request.key.name.startswith(AUTO_CLUSTER), Refusal.CLUSTER_RESERVED)
        _check_key(request)
        await self._templates.create(request, convert.template_needs(request))
        return Result()

    async def UpdateCluster(self, request: Cluster, context: Context) -> Result:
        _check_key(request)
        raise Refusal.CLUSTER_UPDATE()

    async def DeleteCluster(self, request: Cluster, context: Context) -> Result:
        _check_key(request)
        await self._templates.delete(request)
        return Result()

    def ShowCluster(self, request: Cluster, context: Context) -> AsyncIterator[Cluster]:
        return self._templates.show(request)


def _check_key(request: Cluster) -> None:
    refuse_if(not is_template_name(request.key.name), Refusal.CLUSTER_NAME)
