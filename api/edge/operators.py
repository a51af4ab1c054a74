"""Operators, who own cloudlets."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge.records import Records
from domain.naming import DEFAULT_OPERATOR, is_title
from domain.refusal import Refusal, refuse_if
from protos.gen.edge.operator_pb2 import Operator
from protos.gen.edge.operator_pb2_grpc import OperatorApiServicer
from protos.gen.edge.result_pb2 import Result


class OperatorApi(OperatorApiServicer):
    def __init__(self, operators: Records[Operator]) -> None:
        self._operators = operators

    async def CreateOperator(self, request: Operator, context: Context) -> Result:
        _check_key(request)
        refuse_if(request.key.name == DEFAULT_OPERATOR, Refusal.OPERATOR_RESERVED)
        await self._operators.create(request)
        return Result()

    async def UpdateOperator(self, request: Operator, context: Context) -> Result:
        _check_key(request)
        await self._operators.update(request)
        return Result()

    async def DeleteOperator(self, request: Operator, context: Context) -> Result:
        _check_key(request)
        await self._operators.delete(request)
        return Result()

    def ShowOperator(self, request: Operator, context: Context) -> AsyncIterator[Operator]:
        return self._operators.show(request)


def _check_key(request: Operator) -> None:
    refuse_if(not is_title(request.key.name), Refusal.OPERATOR_NAME)
