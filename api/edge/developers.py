"""Developers, who own apps."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge.records import Records
from domain.naming import is_title
from domain.refusal import Refusal, refuse_if
from protos.gen.edge.developer_pb2 import Developer
from protos.gen.edge.developer_pb2_grpc import DeveloperApiServicer
from protos.gen.edge.result_pb2 import Result


class DeveloperApi(DeveloperApiServicer):
    def __init__(self, developers: Records[Developer]) -> None:
        self._developers = developers

    async def CreateDeveloper(self, request: Developer, context: Context) -> Result:
        _check_key(request)
        await self._developers.create(request)
        return Result()

    async def UpdateDeveloper(self, request: Developer, context: Context) -> Result:
        _check_key(request)
        await self._developers.update(request)
        return Result()

    async def DeleteDeveloper(self, request: Developer, context: Context) -> Result:
        _check_key(request)
        await self._developers.delete(request)
        return Result()

    def ShowDeveloper(self, request: Developer, context: Context) -> AsyncIterator[Developer]:
        return self._developers.show(request)


def _check_key(request: Developer) -> None:
    refuse_if(not is_title(request.key.name), Refusal.DEVELOPER_NAME)
