"""The same operations as google.longrunning has them, for clients that know no other."""

import asyncio
from contextlib import aclosing, suppress

from google.longrunning import operations_pb2 as pb  # type: ignore[import-untyped]
from google.protobuf.empty_pb2 import Empty

from api.asking import Context, asked
from api.errors import wrong
from api.launch import Launch
from api.ops import convert, pages
from api.ops.outlook import Outlook
from api.ops.pages import Filters
from domain.operation import OperationId
from store import operations as store
from store.journal import Journal
from store.steering import Steering

WAIT_SECONDS = 29.0
"""A little less than a call may take, so that waiting ends with an answer."""

MARGIN_SECONDS = 1.0
"""What is left of the caller's own deadline for the answer to reach it, a third of it at most."""


class LongRunning:
    """google.longrunning.Operations. The wheel brings no typed servicer to inherit; the door
    refuses to open if a method is missing."""

    def __init__(
        self,
        operations: store.Operations,
        steering: Steering,
        journal: Journal,
        outlook: Outlook,
        launch: Launch,
        *,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._operations = operations
        self._steering = steering
        self._journal = journal
        self._outlook = outlook
        self._launch = launch
        self._wait_seconds = wait_seconds

    async def ListOperations(
        self, request: pb.ListOperationsRequest, context: Context
    ) -> pb.ListOperationsResponse:
        if request.name not in ("", "operations"):
            raise wrong("name", 'must be "operations", or empty')
        if request.filter:
            raise wrong("filter", "is not supported: windlass.v1.Operations has filters")
        size, start = pages.page_size(request.page_size), request.page_token
        found = await self._operations.page(
            size=size + 1, before=pages.page_start(start, Filters())
        )
        shown, more = found[:size], found[size:]
        return pb.ListOperationsResponse(
            operations=[convert.long_running(await self._outlook.of(each)) for each in shown],
            next_page_token=pages.page_token(shown[-1].id, Filters()) if more else "",
        )

    async def GetOperation(self, request: pb.GetOperationRequest, context: Context) -> pb.Operation:
        return convert.long_running(await self._outlook.get(convert.identity(request.name)))

    async def WaitOperation(
        self, request: pb.WaitOperationRequest, context: Context
    ) -> pb.Operation:
        """Answers when the operation is done or the time is up, with how it stands then."""
        operation = convert.identity(request.name)
        patience = convert.seconds(request.timeout, self._wait_seconds)
        if (left := context.time_remaining()) is not None:
            patience = min(patience, left - min(MARGIN_SECONDS, left / 3))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(patience, 0)):
                await self._ended(operation)
        return convert.long_running(await self._outlook.get(operation))

    async def CancelOperation(self, request: pb.CancelOperationRequest, context: Context) -> Empty:
        operation = convert.identity(request.name)
        await self._steering.cancel(operation, asked(request).caller)
        self._launch.cancel_soon(operation)
        return Empty()

    async def DeleteOperation(self, request: pb.DeleteOperationRequest, context: Context) -> Empty:
        await self._operations.forget(convert.identity(request.name))
        return Empty()

    async def _ended(self, operation: OperationId) -> None:
        standing = await self._operations.get(operation)
        events = self._journal.follow(operation, after=standing.last_event)
        async with aclosing(events):
            async for _ in events:
                pass
