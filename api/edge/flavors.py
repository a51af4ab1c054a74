"""Flavors, the sizes things come in."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge import convert
from api.edge.records import Records
from domain import flavor
from domain.refusal import Refusal
from protos.gen.edge.flavor_pb2 import Flavor
from protos.gen.edge.flavor_pb2_grpc import FlavorApiServicer
from protos.gen.edge.result_pb2 import Result


class FlavorApi(FlavorApiServicer):
    def __init__(self, flavors: Records[Flavor]) -> None:
        self._flavors = flavors

    async def CreateFlavor(self, request: Flavor, context: Context) -> Result:
        flavor.check(convert.flavor(request))
        await self._flavors.create(request)
        return Result()

    async def UpdateFlavor(self, request: Flavor, context: Context) -> Result:
        flavor.check_name(request.key.name)
        raise Refusal.FLAVOR_UPDATE()

    async def DeleteFlavor(self, request: Flavor, context: Context) -> Result:
        flavor.check_name(request.key.name)
        await self._flavors.delete(request)
        return Result()

    def ShowFlavor(self, request: Flavor, context: Context) -> AsyncIterator[Flavor]:
        return self._flavors.show(request)
