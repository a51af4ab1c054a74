"""A4: one client that nobody knows takes neither the calls nor the memory of others."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from ipaddress import ip_network
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from api import http2
from api.calls import CallLimits, Calls
from api.origin import Origins
from domain.access import Principal, Role, Session
from domain.errors import Exhausted
from protos.gen.ops import access_pb2
from protos.gen.ops.access_pb2_grpc import UsersStub
from settings import Limits
from tests.api.closed import Closed, closed
from tests.api.signed import bearer
from tests.security.hostile.wire import EMPTY, LOGIN, WATCH, Client, call, frame, reset
from tests.support.load import grown, limit

SMALL = Limits(
    connections_per_address=40,
    streams_per_connection=50,
    resets_per_second=20,
    unfinished_mb=8,
    unfinished_mb_per_address=4,
    health_calls_per_address=20,
    health_calls=30,
    calls_before_sign_in=10,
)
OWN = [("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Closed]:
    async with closed(tmp_path_factory.mktemp("closed"), limits=SMALL) as served:
        yield served


async def until(done: Callable[[], bool]) -> None:
    async with limit(40):
        while not done():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)


async def works(server: Closed) -> None:
    """Somebody else is answered, to calls and to health checks of their own."""
    async with grpc.aio.insecure_channel(server.address, options=OWN) as channel:
        given = bearer(server.tokens["vic"])
        asked = access_pb2.WhoAmIRequest()
        for _ in range(3):
            who = await UsersStub(channel).WhoAmI(asked, metadata=given, timeout=grown(10))
            assert who.name == "vic"


async def test_watches_of_health_end_at_a_limit_of_their_own(server: Closed) -> None:
    clients = [await Client.connect(server.address) for _ in range(3)]
    async with limit(40):
        for client in clients:
            for number in range(40):
                stream = 2 * number + 1
                data = frame(http2.DATA, stream, EMPTY, http2.END_STREAM)
                assert await client.send(call(stream, WATCH) + data)
        await until(lambda: sum(client.answered for client in clients) >= 100)  # all but twenty
        await works(server)
        async with grpc.aio.insecure_channel(server.address, options=OWN) as channel:
            health: Any = HealthStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await health.Check(health_pb2.HealthCheckRequest(), timeout=grown(10))
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for client in clients:
            await client.close()
        while True:  # what ended makes place
            try:
                async with grpc.aio.insecure_channel(server.address, options=OWN) as channel:
                    health = HealthStub(channel)
                    await health.Check(health_pb2.HealthCheckRequest(), timeout=grown(10))
                    break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)


async def test_rapid_resets_end_their_own_connection_alone(server: Closed) -> None:
    client = await Client.connect(server.address)
    quiet = await Client.connect(server.address)
    async with limit(40):
        stream = 1
        while await client.send(call(stream, LOGIN) + reset(stream)) and stream < 20_000:
            stream += 2
        await client.closed.wait()
        assert client.goaway in (b"too many resets", b"")  # a reset of TCP may overtake it
        assert not quiet.closed.is_set()
        await works(server)
    await client.close()
    await quiet.close()


async def test_more_streams_than_are_allowed_end_their_connection(server: Closed) -> None:
    client = await Client.connect(server.address)
    async with limit(40):
        stream = 1
        while await client.send(call(stream, LOGIN)) and stream < 20_000:
            stream += 2
        await client.closed.wait()
        await works(server)
    await client.close()


async def test_unfinished_messages_take_no_more_than_their_budget(server: Closed) -> None:
    front, most = server.api._server._front, 0
    async with limit(40):
        clients = [await Client.connect(server.address) for _ in range(3)]
        begun = b"\0" + (4_000_000).to_bytes(4, "big") + bytes(1_500_000)

        async def pour(client: Client) -> None:
            for stream in (1, 3, 5):
                await client.send(call(stream, LOGIN))
                await client.pour(stream, begun)

        pouring = asyncio.gather(*map(pour, clients))
        while not pouring.done():
            most = max(most, front.budget.held)
            await asyncio.sleep(0.01)
        await pouring
        await until(lambda: any(client.closed.is_set() for client in clients))
        assert most <= 4 * 2**20 + 300_000
        await works(server)
        for client in clients:
            await client.close()
        await until(lambda: not front.budget.held)


async def test_new_connections_displace_those_that_send_nothing(server: Closed) -> None:
    host, _, port = server.address.rpartition(":")
    async with limit(40):
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(60)]
        await works(server)
        assert server.api._server._front.table.count <= 40
        for _, writer in idle:
            writer.close()


class Line:
    """A call of somebody at an address, which a proxy may have passed on."""

    def __init__(self, address: str, forwarded: str = "") -> None:
        self._address, self._forwarded = address, forwarded

    def peer(self) -> str:
        return f"ipv4:{self._address}:1"

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        return [("x-forwarded-for", self._forwarded)] if self._forwarded else []


VIC = Session(principal=Principal(name="vic", role=Role.VIEWER), digest="x")
METHOD = "windlass.v1.Users/WhoAmI"


def test_unknown_callers_are_counted_by_address_and_known_ones_by_user() -> None:
    origins = Origins([ip_network("192.0.2.0/24")])
    calls = Calls(CallLimits(per_address=2, per_user=3), origins)
    with ExitStack() as stack:

        def enter(line: Line, session: Session | None = None) -> None:
            arrived = stack.enter_context(calls.arriving(METHOD, line))
            if session is not None:
                arrived.recognise(session)

        attacker = Line("198.51.100.1")
        for _ in range(2):
            enter(attacker)
        with pytest.raises(Exhausted):
            enter(attacker)
        for number in range(20):  # one load balancer is not one caller
            enter(Line("192.0.2.1", f"203.0.113.{number}"))
        for number in range(3):
            enter(Line(f"198.51.100.{number + 2}"), VIC)
        with pytest.raises(Exhausted, match="vic"):
            enter(Line("198.51.100.9"), VIC)
    with calls.arriving(METHOD, attacker) as again:
        again.recognise(VIC)


def test_health_checks_are_outside_of_what_calls_may_be() -> None:
    calls = Calls(CallLimits(most=1, per_address=1, health=2, health_per_address=2))
    line = Line("198.51.100.1")
    with ExitStack() as stack:
        stack.enter_context(calls.arriving(METHOD, line))
        for _ in range(2):
            stack.enter_context(calls.arriving("grpc.health.v1.Health/Watch", line))
        with pytest.raises(Exhausted):
            stack.enter_context(calls.arriving("grpc.health.v1.Health/Check", line))
