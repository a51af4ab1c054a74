"""Cloudlets, as their operators describe them. Describing one asks nobody: its streams end without
a message."""

from collections.abc import AsyncIterator, Awaitable

from api.asking import Context
from api.edge import convert
from api.edge.masks import Mask
from api.edge.records import Records
from domain import cloudlet
from protos.gen.edge.cloudlet_pb2 import Cloudlet
from protos.gen.edge.cloudlet_pb2_grpc import CloudletApiServicer
from protos.gen.edge.common_pb2 import IP_SUPPORT_DYNAMIC, IP_SUPPORT_UNKNOWN
from protos.gen.edge.result_pb2 import Result


class CloudletApi(CloudletApiServicer):
    def __init__(self, cloudlets: Records[Cloudlet]) -> None:
        self._cloudlets = cloudlets

    def CreateCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Result]:
        return _quietly(self._created(request))

    def UpdateCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Result]:
        return _quietly(self._updated(request))

    def DeleteCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Result]:
        return _quietly(self._cloudlets.delete(request))

    def ShowCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Cloudlet]:
        return self._cloudlets.show(request)

    async def _created(self, request: Cloudlet) -> None:
        cloudlet.check(convert.cloudlet(request))
        _say_dynamic(request)
        await self._cloudlets.create(request, convert.cloudlet_needs(request))

    async def _updated(self, request: Cloudlet) -> None:
        changing = convert.cloudlet_changing(self._cloudlets.mask(request))
        cloudlet.check_change(convert.cloudlet(request), changing)
        await self._cloudlets.update(request, _check_merged)


def _check_merged(merged: Cloudlet, _mask: Mask) -> None:
    _say_dynamic(merged)
    cloudlet.check_ip_support(convert.cloudlet(merged))


def _say_dynamic(described: Cloudlet) -> None:
    """Nothing said means dynamic addresses, and is kept as that."""
    if described.ip_support == IP_SUPPORT_UNKNOWN:
        described.ip_support = IP_SUPPORT_DYNAMIC


async def _quietly(change: Awaitable[None]) -> AsyncIterator[Result]:
    """A change that is done when its stream ends, and has nothing to tell before."""
    await change
    nothing: tuple[Result, ...] = ()
    for message in nothing:
        yield message
