"""The operations service: every change that outlives its call, live."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from api.asking import Context
from api.ops import convert
from api.ops.outlook import Outlook
from protos.gen.ops import operations_pb2 as pb
from protos.gen.ops.operations_pb2_grpc import OperationsServicer
from store import operations as store
from store.journal import Journal


class Operations(OperationsServicer):
    def __init__(self, operations: store.Operations, journal: Journal, outlook: Outlook) -> None:
        self._operations = operations
        self._journal = journal
        self._outlook = outlook

    async def List(
        self, request: pb.ListOperationsRequest, context: Context
    ) -> pb.ListOperationsResponse:
        size, filters = convert.page_size(request.page_size), convert.filters(request)
        start = convert.page_start(request.page_token, filters)
        found = await self._operations.page(size=size + 1, before=start, **filters._asdict())
        shown, more = found[:size], found[size:]
        return pb.ListOperationsResponse(
            operations=[convert.operation(await self._outlook.of(each)) for each in shown],
            next_page_token=convert.page_token(shown[-1].id, filters) if more else "",
        )

    async def Get(self, request: pb.GetOperationRequest, context: Context) -> pb.Operation:
        return convert.operation(await self._outlook.get(convert.identity(request.name)))

    async def Watch(
        self, request: pb.WatchOperationRequest, context: Context
    ) -> AsyncIterator[pb.OperationEvent]:
        operation = convert.identity(request.name)
        events = self._journal.follow(operation, after=convert.place(request.after))
        async with aclosing(events):
            async for event in events:
                standing = await self._outlook.since(operation, event.number)
                yield convert.event(event, standing)
