"""Following an operation to its end, over broken connections too."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import grpc
import grpc.aio

from cli import documents, view
from cli.complaints import Code, Complaint
from cli.printing import Page
from protos.gen.ops import operations_pb2 as pb
from protos.gen.ops.operations_pb2_grpc import OperationsStub

if TYPE_CHECKING:
    from rich.console import Console

    from cli.calling import Call

BROKEN = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNKNOWN,
    }
)
"""How a stream ends that broke, was too slow, or whose server goes away. Nothing is wrong with the
operation then."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
"""So long a server may stay silent before we no longer believe that it comes back."""

GET_SECONDS = 15.0
TICK_SECONDS = 0.25


class Face(Protocol):
    """What the follower of an operation sees."""

    def begin(self, operation: pb.Operation) -> int:
        """Show the operation as it stands. Returns after which event to follow it."""

    def hear(self, event: pb.OperationEvent) -> None: ...

    def lost(self, why: str) -> None:
        """We hear nothing for now; called again at every try, and with "" once we are back."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...


async def watch(
    channel: grpc.aio.Channel, operation_id: str, *, console: "Console"
) -> pb.Operation:
    """Show an operation until it has ended, and return it with its steps.

    On a terminal a picture changes in place; elsewhere every event is one line, from the first. A
    stream that breaks is taken up where it broke. Raises AioRpcError if the operation is unknown,
    or if the server cannot be reached at first or for five minutes later on."""
    face = Picture(console) if console.file.isatty() else Lines(console)
    return await follow(channel, operation_id, face)


async def follow(channel: grpc.aio.Channel, operation_id: str, face: Face) -> pb.Operation:
    """Show an operation on any face until it has ended."""
    stub = OperationsStub(channel)
    request = pb.GetOperationRequest(name=f"operations/{operation_id}")
    operation = await stub.Get(request, timeout=GET_SECONDS)
    async with face:
        after = face.begin(operation)
        if operation.HasField("ended") and operation.last_event <= after:
            return operation
        async with aclosing(events(stub, operation.name, after, face.lost)) as heard:
            async for event in heard:
                face.hear(event)
        return await stub.Get(request, timeout=GET_SECONDS)


async def events(
    stub: OperationsStub, name: str, after: int, lost: Callable[[str], None]
) -> AsyncGenerator[pb.OperationEvent, None]:
    """Every event past `after`, each once, until the operation has ended.

    What counts against the patience is time in which no stream said a word or lived for long."""
    pause, heard, broken = FIRST_PAUSE_SECONDS, time.monotonic(), False
    while True:
        opened = None
        try:
            if broken:
                now = await stub.Get(pb.GetOperationRequest(name=name), timeout=GET_SECONDS)
                lost("")
                if now.HasField("ended") and now.last_event <= after:
                    return
            opened = time.monotonic()
            stream = stub.Watch(pb.WatchOperationRequest(name=name, after=after))
            try:
                async for event in stream:
                    pause, heard = FIRST_PAUSE_SECONDS, time.monotonic()
                    if event.number > after:
                        after = event.number
                        yield event
                    if event.last:
                        return
            finally:
                stream.cancel()
        except grpc.aio.AioRpcError as error:
            if opened is not None and time.monotonic() - opened > LONGEST_PAUSE_SECONDS:
                pause, heard = FIRST_PAUSE_SECONDS, time.monotonic()
            if error.code() not in BROKEN or time.monotonic() - heard > PATIENCE_SECONDS:
                raise
        broken = True
        lost(f"connection lost, trying again in {pause:.1f} s")
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


class Picture:
    """A picture that stands in one place on a terminal. It is drawn by the clock rather than by
    the event, since a large fleet has more to tell than can be drawn."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._live = Live(console=console, auto_refresh=False)
        self._view: view.View | None = None
        self._clock: asyncio.Task[None] | None = None

    def begin(self, operation: pb.Operation) -> int:
        self._view = view.View.of(operation)
        self._draw()
        return operation.last_event

    def hear(self, event: pb.OperationEvent) -> None:
        if self._view is not None:
            self._view.hear(event)

    def lost(self, why: str) -> None:
        if self._view is not None:
            self._view.lost = why
        self._draw()

    def _draw(self) -> None:
        if self._view is not None:
            self._live.update(view.render(self._view, datetime.now(UTC)), refresh=True)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._draw()

    async def __aenter__(self) -> Self:
        self._live.start()
        self._clock = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.cancel()
            with suppress(asyncio.CancelledError):
                await self._clock
        self._draw()
        self._live.stop()


class Lines:
    """A line per event, for logs and pipes."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._lost = False

    def begin(self, operation: pb.Operation) -> int:  # noqa: ARG002 - the first lines tell it
        return 0

    def hear(self, event: pb.OperationEvent) -> None:
        self._say(view.line(event))

    def lost(self, why: str) -> None:
        if why and not self._lost:  # once each time, however often we try
            self._say(f"{datetime.now():%H:%M:%S}  {why}")
        self._lost = bool(why)

    def _say(self, text: str) -> None:
        self._console.print(text)
        self._console.file.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Stream(Lines):
    """A document per event, for programs. What is lost and found again is told on stderr."""

    def __init__(self, page: Page) -> None:
        super().__init__(page.err)
        self._page = page

    def hear(self, event: pb.OperationEvent) -> None:
        self._page.further(documents.event(event))


async def waited(
    call: "Call", operation_id: str, seconds: float | None, face: Face
) -> pb.Operation:
    """Follow an operation for so long at most. Whoever stops before its end is told how to go on:
    the work does not stop with us."""
    try:
        async with asyncio.timeout(seconds):
            return await follow(call.channel, operation_id, face)
    except TimeoutError:
        raise Complaint(
            f"the operation has not ended in {seconds:g} s",
            Code.TIMED_OUT,
            lines=["the work goes on"],
            do=_how_to_go_on(operation_id),
            operation=operation_id,
        ) from None
    except asyncio.CancelledError:
        call.page.err.print(
            f"\nnot followed any more; the work goes on\n  do: {_how_to_go_on(operation_id)}"
        )
        raise


def facing(call: "Call") -> Face:
    """The face for people, wherever this call shows its progress."""
    console = call.page.talk
    return Picture(console) if console.file.isatty() else Lines(console)


def judged(operation: pb.Operation, *wanted: "pb.Stage.ValueType") -> None:
    """Complain about an operation that did not end as wanted."""
    if operation.stage in wanted:
        return
    identity = operation.name.removeprefix("operations/")
    what = f"{operation.kind} {operation.subject}"
    match operation.stage:
        case pb.CANCELLED:
            message = f"{what} was cancelled"
        case pb.SUPERSEDED:
            message = f"{what} was given up: another operation took its place"
        case pb.FAILED:
            message = f"{what} failed: {operation.failure.message}"
        case _:
            message = f"{what} ended {pb.Stage.Name(operation.stage)}"
    raise Complaint(
        message,
        reason=operation.failure.kind if operation.stage == pb.FAILED else "",
        do=f"windlass op get {identity} shows every step",
        operation=identity,
        request=operation.request_id,
    )


def _how_to_go_on(operation_id: str) -> str:
    follow, stop = f"windlass op watch {operation_id}", f"windlass op cancel {operation_id}"
    return f"{follow} to follow it, {stop} to stop it"
