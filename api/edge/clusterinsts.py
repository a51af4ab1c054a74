"""Clusters on cloudlets. What is told of them comes from the journal of their operations."""

from collections.abc import AsyncIterator

from api.asking import Context, asked
from api.edge import instances
from api.edge.masks import mask
from api.edge.progress import Progress
from api.edge.records import Records
from api.edge.showing import Showing
from domain.clusterinst import check_fields, check_key
from domain.standing import ClusterInstStanding
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.clusterinst_pb2_grpc import (
    ClusterInstApiServicer,
    ClusterInstInfoApiServicer,
)
from protos.gen.edge.result_pb2 import Result
from store.clusterinsts import ClusterInsts


class ClusterInstApi(ClusterInstApiServicer):
    def __init__(self, clusters: ClusterInsts, progress: Progress, *, lax: bool = False) -> None:
        self._clusters = clusters
        self._progress = progress
        self._lax = lax
        self._showing = Showing[ClusterInstStanding, ClusterInst](
            clusters, instances.clusterinst_message
        )

    def CreateClusterInst(self, request: ClusterInst, context: Context) -> AsyncIterator[Result]:
        asking = self._clusters.request_create(
            instances.clusterinst(request),
            instances.override(request.crm_override),
            asked(request),
        )
        return self._progress.of(asking, context)

    def UpdateClusterInst(self, request: ClusterInst, context: Context) -> AsyncIterator[Result]:
        key = instances.clusterinst_key(request.key)
        check_key(key)
        resizes = check_fields(mask(request, lax=self._lax).leaves)
        asking = self._clusters.request_update(
            key,
            request.num_nodes if resizes else None,
            instances.override(request.crm_override),
            asked(request),
        )
        return self._progress.of(asking, context)

    def DeleteClusterInst(self, request: ClusterInst, context: Context) -> AsyncIterator[Result]:
        key = instances.clusterinst_key(request.key)
        check_key(key)
        asking = self._clusters.request_delete(
            key,
            instances.override(request.crm_override),
            asked(request),
        )
        return self._progress.of(asking, context)

    def ShowClusterInst(self, request: ClusterInst, context: Context) -> AsyncIterator[ClusterInst]:
        return self._showing.show(request)


class ClusterInstInfoApi(ClusterInstInfoApiServicer):
    """What resource managers said last of clusters."""

    def __init__(self, infos: Records[ClusterInstInfo]) -> None:
        self._infos = infos

    def ShowClusterInstInfo(
        self, request: ClusterInstInfo, context: Context
    ) -> AsyncIterator[ClusterInstInfo]:
        return self._infos.show(request)
