"""Cloudlets, as their operators describe them. Describing one asks nobody, and what goes with
one that is deleted is told elsewhere: their streams end without a message."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing

from api.asking import Context, asked
from api.edge import convert, instances, keys
from api.edge.progress import Progress
from api.edge.records import Records
from domain import cloudlet
from domain.record import Record
from protos.gen.edge.cloudlet_pb2 import Cloudlet
from protos.gen.edge.cloudlet_pb2_grpc import CloudletApiServicer
from protos.gen.edge.common_pb2 import IP_SUPPORT_DYNAMIC, IP_SUPPORT_UNKNOWN
from protos.gen.edge.result_pb2 import Result
from store.cloudlets import Cloudlets


class CloudletApi(CloudletApiServicer):
    def __init__(self, cloudlets: Records[Cloudlet], places: Cloudlets, progress: Progress) -> None:
        self._cloudlets = cloudlets
        self._places = places
        self._progress = progress

    def CreateCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Result]:
        return _quietly(self._created(request))

    def UpdateCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Result]:
        return _quietly(self._updated(request))

    def DeleteCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Result]:
        return _quietly(self._deleted(request, context))

    def ShowCloudlet(self, request: Cloudlet, context: Context) -> AsyncIterator[Cloudlet]:
        return self._cloudlets.show(request)

    async def _created(self, request: Cloudlet) -> None:
        cloudlet.check(convert.cloudlet(request))
        _say_dynamic(request)
        await self._cloudlets.create(request, convert.cloudlet_needs(request))

    async def _updated(self, request: Cloudlet) -> None:
        changing = convert.cloudlet_changing(self._cloudlets.mask(request))
        cloudlet.check_change(convert.cloudlet(request), changing)
        named = self._cloudlets.mask(request)

        def changed(before: bytes) -> Record:
            merged = Cloudlet.FromString(before)
            named.merge(merged, request)
            _say_dynamic(merged)
            cloudlet.check_ip_support(convert.cloudlet(merged))
            return convert.cloudlet_record(merged)

        await self._places.change(keys.of(request), changed, asked(request))

    async def _deleted(self, request: Cloudlet, context: Context) -> None:
        cloudlet.check_key(instances.cloudlet_key(request.key))
        asking = self._places.request_delete(keys.of(request), asked(request))
        async with aclosing(self._progress.of(asking, context)) as told:
            async for _ in told:
                pass  # its parts are told of where they are followed


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
