# ruff: noqa: N802 - the methods are named by the contract
"""The door: what every call meets, whatever its method."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from api.asking import Context, asked, running
from api.door import Door, Service
from api.meters import Meters
from api.server import Server
from domain.errors import Exhausted
from protos.gen.ops import operations_pb2 as pb
from protos.gen.ops.operations_pb2_grpc import OperationsServicer
from tests.api.caller import Caller, answered, read, refused
from tests.support.load import limit

SERVICE = pb.DESCRIPTOR.services_by_name["Operations"]


class Moody(OperationsServicer):
    """A servicer that does as its caller says."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    async def Get(self, request: pb.GetOperationRequest, _context: Context) -> pb.Operation:
        if request.name == "echo":
            call = running()
            return pb.Operation(name=call.method, kind=asked(request).key, subject=call.request_id)
        if request.name == "exhausted":
            raise Exhausted("nothing left", reason="NOTHING_LEFT", facts={"wanted": "1"})
        if request.name == "hang":
            self.begun.set()
            await self._hang()
        raise ZeroDivisionError("a secret: hunter2")

    async def List(
        self, _request: pb.ListOperationsRequest, _context: Context
    ) -> pb.ListOperationsResponse:
        raise TimeoutError("somebody else's")

    async def Watch(
        self, request: pb.WatchOperationRequest, _context: Context
    ) -> AsyncIterator[pb.OperationEvent]:
        yield pb.OperationEvent(number=1)
        self.begun.set()
        if request.name == "exhausted":
            raise Exhausted("nothing left")
        await self._hang()

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@pytest.fixture
def moody() -> Moody:
    return Moody()  # type: ignore[abstract]  # the others are not called


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
async def server(moody: Moody, meters: Meters) -> AsyncIterator[Server]:
    door = Door(meters, unary_seconds=0.3)
    server = Server([Service(SERVICE, moody)], meters, door=door)
    yield server
    await server.stop(0)


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    caller = Caller(await server.start("127.0.0.1:0"))
    yield caller
    await caller.close()


def get(caller: Caller, name: str, **more: Any) -> Any:
    return caller.operations.Get(pb.GetOperationRequest(name=name), timeout=20, **more)


def watch(caller: Caller, name: str = "") -> Any:
    return caller.operations.Watch(pb.WatchOperationRequest(name=name), timeout=20)


async def test_bytes_that_are_no_message_are_refused(caller: Caller) -> None:
    for service in ("windlass.v1.Operations/Get", "grpc.health.v1.Health/Check"):
        refusal = await refused(caller.raw(service, b"\xff\xff\xff"))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.reason == "MALFORMED_REQUEST"
        assert "DecodeError" not in refusal.message


async def test_bytes_that_are_no_message_are_refused_on_streams(caller: Caller) -> None:
    stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
    stream = caller.channel.unary_stream("/windlass.v1.Operations/Watch")
    watching = stream(b"\x08", timeout=20)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()
    assert read(caught.value).reason == "MALFORMED_REQUEST"
    both_ways: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    both_ways = caller.channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    )
    reflecting = both_ways(iter([b"\xff"]), timeout=20)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reflecting.read()
    assert read(caught.value).reason == "MALFORMED_REQUEST"


async def test_every_call_has_an_id_which_is_the_callers_if_it_has_one(caller: Caller) -> None:
    reply, trailers = await answered(get(caller, "echo", metadata=(("x-request-id", "mine"),)))
    assert (trailers["x-request-id"], reply.subject, reply.kind) == ("mine", "mine", "mine")
    assert reply.name == "windlass.v1.Operations/Get"
    reply, trailers = await answered(get(caller, "echo"))
    assert len(trailers["x-request-id"]) == 16
    assert reply.subject == trailers["x-request-id"]
    assert reply.kind == "", "an id that we drew is no promise of the caller's to repeat it"


async def test_a_refusal_carries_the_id_too(caller: Caller) -> None:
    refusal = await refused(get(caller, "exhausted", metadata=(("x-request-id", "mine"),)))
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (refusal.reason, refusal.facts) == ("NOTHING_LEFT", {"wanted": "1"})
    assert refusal.trailers["x-request-id"] == "mine"


@pytest.mark.parametrize("name", ["x-request-id", "idempotency-key"])
@pytest.mark.parametrize("key", ["", "x" * 129])
async def test_a_key_must_be_one(name: str, key: str, caller: Caller) -> None:
    refusal = await refused(get(caller, "echo", metadata=((name, key),)))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.reason == "INVALID_REQUEST_ID"
    assert refusal.trailers["x-request-id"]


async def test_a_bug_is_told_without_its_trace_and_logged_with_it(caller: Caller) -> None:
    with capture_logs() as lines:
        refusal = await refused(get(caller, "bug", metadata=(("x-request-id", "mine"),)))
    assert refusal.code is grpc.StatusCode.INTERNAL
    assert refusal.message == "internal error; the log has it under request mine"
    assert "hunter2" not in str(refusal.trailers)
    [line] = [line for line in lines if line["log_level"] == "error"]
    assert isinstance(line["exc_info"], ZeroDivisionError)


async def test_a_call_that_takes_too_long_is_overdue(caller: Caller, moody: Moody) -> None:
    refusal = await refused(get(caller, "hang"))
    assert refusal.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert refusal.reason == "OVERDUE"
    assert "same request id" in refusal.facts["do"]
    assert moody.left.is_set()


async def test_a_timeout_within_is_a_bug_and_not_overdue(caller: Caller) -> None:
    refusal = await refused(caller.operations.List(pb.ListOperationsRequest(), timeout=20))
    assert refusal.code is grpc.StatusCode.INTERNAL


async def test_who_hangs_up_on_a_call_ends_it(caller: Caller, moody: Moody) -> None:
    call = get(caller, "hang")
    async with limit(5):
        await moody.begun.wait()
        call.cancel()
        await moody.left.wait()


async def test_who_hangs_up_on_a_stream_ends_it(caller: Caller, moody: Moody) -> None:
    call = watch(caller)
    assert (await call.read()).number == 1
    call.cancel()
    async with limit(5):
        await moody.left.wait()


async def test_a_stream_may_end_in_a_refusal(caller: Caller) -> None:
    call = watch(caller, "exhausted")
    assert (await call.read()).number == 1
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert read(caught.value).code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_streams_outlive_what_a_single_call_may_take(caller: Caller, moody: Moody) -> None:
    call = watch(caller)
    await call.read()
    await refused(get(caller, "hang"))
    await refused(get(caller, "hang"))
    assert not call.done()


async def test_going_down_ends_streams_with_a_word_and_lets_calls_end(
    caller: Caller, moody: Moody, server: Server
) -> None:
    stream = watch(caller)
    await stream.read()
    moody.begun.clear()
    call = asyncio.create_task(refused(get(caller, "hang")))
    await moody.begun.wait()
    stopping = asyncio.create_task(server.stop())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    refusal = read(caught.value)
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert (refusal.reason, refusal.retry) == ("SERVER_STOPPING", True)
    assert (await call).reason == "OVERDUE", "it was let run as long as any call may"
    await stopping


async def test_calls_are_counted_by_code(caller: Caller, meters: Meters) -> None:
    await get(caller, "echo")
    await refused(get(caller, "exhausted"))
    await refused(caller.raw("windlass.v1.Operations/Get", b"\xff"))
    text = meters.text().decode()
    counted = 'windlass_grpc_calls_total{code="%s",method="Get",service="windlass.v1.Operations"} 1'
    for code in ("OK", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"):
        assert counted % code in text
    assert 'windlass_grpc_seconds_count{method="Get",service="windlass.v1.Operations"} 3' in text
