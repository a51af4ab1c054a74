"""What resource managers say of their cloudlets, or what a test has put in its place."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge import binding
from api.edge.records import Records
from domain.refusal import Refusal, refuse_if
from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from protos.gen.edge.cloudlet_pb2_grpc import CloudletInfoApiServicer
from protos.gen.edge.result_pb2 import Result


class CloudletInfoApi(CloudletInfoApiServicer):
    def __init__(self, infos: Records[CloudletInfo]) -> None:
        self._infos = infos

    def ShowCloudletInfo(
        self, request: CloudletInfo, context: Context
    ) -> AsyncIterator[CloudletInfo]:
        return self._infos.show(request)

    async def InjectCloudletInfo(self, request: CloudletInfo, context: Context) -> Result:
        binding.hold(request.key)
        await self._infos.put(request)
        return Result()

    async def EvictCloudletInfo(self, request: CloudletInfo, context: Context) -> Result:
        _check_key(request)
        binding.hold(request.key)
        await self._infos.delete(request)
        return Result()


def _check_key(request: CloudletInfo) -> None:
    """Refuse a key that names no cloudlet. Any other is let through: resource managers are not
    asked how their cloudlets may be called, and what they said has to be evictable."""
    refuse_if(not request.key.operator_key.name, Refusal.OPERATOR_NAME)
    refuse_if(not request.key.name, Refusal.CLOUDLET_NAME)
