"""The operations service: every change that outlives its call, live."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

from api.asking import Context, asked
from api.launch import Launch
from api.ops import convert, pages
from api.ops.outlook import Outlook
from api.ops.plans import Plans
from domain.operation import OperationId
from protos.gen.ops import operations_pb2 as pb
from protos.gen.ops.operations_pb2_grpc import OperationsServicer
from store import operations as store
from store.journal import Journal
from store.patience import read_patiently
from store.steering import Steering


class Operations(OperationsServicer):
    def __init__(
        self,
        operations: store.Operations,
        steering: Steering,
        journal: Journal,
        outlook: Outlook,
        plans: Plans,
        launch: Launch,
    ) -> None:
        self._operations = operations
        self._steering = steering
        self._journal = journal
        self._outlook = outlook
        self._plans = plans
        self._launch = launch

    async def List(
        self, request: pb.ListOperationsRequest, context: Context
    ) -> pb.ListOperationsResponse:
        size, filters = pages.page_size(request.page_size), pages.filters(request)
        start = pages.page_start(request.page_token, filters)
        found = await self._operations.page(size=size + 1, before=start, **filters._asdict())
        shown, more = found[:size], found[size:]
        return pb.ListOperationsResponse(
            operations=[convert.operation(await self._outlook.of(each)) for each in shown],
            next_page_token=pages.page_token(shown[-1].id, filters) if more else "",
        )

    async def Get(self, request: pb.GetOperationRequest, context: Context) -> pb.Operation:
        return await self._now(convert.identity(request.name))

    async def Watch(
        self, request: pb.WatchOperationRequest, context: Context
    ) -> AsyncIterator[pb.OperationEvent]:
        operation = convert.identity(request.name)
        events = self._journal.follow(operation, after=convert.place(request.after))
        async with aclosing(events):
            async for event in events:
                since = partial(self._outlook.since, operation, event.number)
                standing = await read_patiently(since)
                yield convert.event(event, standing)

    async def Cancel(self, request: pb.CancelOperationRequest, context: Context) -> pb.Operation:
        operation = convert.identity(request.name)
        await self._steering.cancel(operation, asked(request).caller)
        self._launch.cancel_soon(operation)
        return await self._now(operation)

    async def Pause(self, request: pb.PauseOperationRequest, context: Context) -> pb.Operation:
        operation = convert.identity(request.name)
        await self._steering.pause(operation, asked(request).caller)
        return await self._nudged(operation)

    async def Resume(self, request: pb.ResumeOperationRequest, context: Context) -> pb.Operation:
        operation = convert.identity(request.name)
        await self._steering.resume(operation, asked(request).caller)
        return await self._nudged(operation)

    async def Approve(self, request: pb.ApproveOperationRequest, context: Context) -> pb.Operation:
        operation, gate = convert.identity(request.name), convert.gate(request.gate)
        await self._steering.approve(operation, gate, asked(request).caller)
        return await self._nudged(operation)

    async def Plan(self, request: pb.PlanRequest, context: Context) -> pb.PlanResponse:
        foreseen = await self._plans.of(request.method, request.request, context)
        return convert.plan(foreseen) if foreseen else pb.PlanResponse()

    async def _nudged(self, operation: OperationId) -> pb.Operation:
        self._launch.nudge_soon(operation)
        return await self._now(operation)

    async def _now(self, operation: OperationId) -> pb.Operation:
        return convert.operation(await self._outlook.get(operation))
