"""A resource manager that freezes while its connection stays up: TCP is acknowledged, nothing is
said, and nothing ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from agent.crm import stream
from api import server
from api.__main__ import Api
from api.edge import notify
from protos.gen.edge.cloudlet_pb2 import (
    CLOUDLET_STATE_OFFLINE,
    CLOUDLET_STATE_READY,
    CloudletInfo,
)
from settings import Edge as Terms
from tests.api.caller import Caller
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.support.load import limit

SHARE = 10
"""All times are this much shorter here."""

SILENCE = "grpc.keepalive_time_ms"
ANSWER = ("grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
"""Of these the longer one counts; the second is a minute unless it is said."""

OWN = [("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture
def terms(monkeypatch: pytest.MonkeyPatch) -> Terms:
    for options in (notify.OPTIONS, server.OPTIONS):
        for name in options.keys() & {SILENCE, *ANSWER}:
            monkeypatch.setitem(options, name, options[name] // SHARE)
    return Terms(notify_address="127.0.0.1:0")


class Wire:
    """A connection's way through another host, which may keep all bytes to itself."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._flows = asyncio.Event()
        self._flows.set()
        self._passing: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.address = ""

    def freeze(self) -> None:
        self._flows.clear()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        self._writers += [writer, back]
        self._passing |= {
            asyncio.create_task(self._pass(reader, back)),
            asyncio.create_task(self._pass(there, writer)),
        }

    async def close(self) -> None:
        for task in self._passing:
            task.cancel()
        await asyncio.wait(self._passing)
        for writer in self._writers:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self._flows.wait()
                data = await reader.read(65536)
                await self._flows.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the other end is gone
        writer.close()


@asynccontextmanager
async def wired(address: str) -> AsyncIterator[Wire]:
    wire = Wire(address)
    listening = await asyncio.start_server(wire.take, "127.0.0.1", 0)
    wire.address = "{}:{}".format(*listening.sockets[0].getsockname()[:2])
    try:
        yield wire
    finally:
        listening.close()
        await wire.close()


async def stated(edge: Edge, state: int, seconds: float) -> None:
    async with limit(seconds):
        while True:
            found = await edge("ShowCloudletInfo", CloudletInfo())
            if [each.state for each in found] == [state]:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("after", [0.0, 1.0])
@pytest.mark.parametrize("door", ["own", "everybody's"])
async def test_who_freezes_is_offline(
    api: Api, caller: Caller, edge: Edge, door: str, after: float
) -> None:
    """Also right after it has connected, when pings of the library itself are on their way."""
    address = api.notify_address if door == "own" else caller.address
    async with (
        wired(address) as wire,
        grpc.aio.insecure_channel(wire.address, options=OWN) as channel,
    ):
        peer = Peer(channel, filtered=True)
        peer.tell(CloudletInfo(key=stubs.cloudlet().key, state=CLOUDLET_STATE_READY))
        await stated(edge, CLOUDLET_STATE_READY, 20)
        await asyncio.sleep(after)
        wire.freeze()
        await stated(edge, CLOUDLET_STATE_OFFLINE, 20)
        await peer.lose()


@pytest.mark.parametrize("options", [notify.OPTIONS, server.OPTIONS, dict(stream.OPTIONS)])
def test_nobody_is_taken_to_be_there_for_more_than_a_minute(options: dict[str, int]) -> None:
    assert options[SILENCE] + max(options[name] for name in ANSWER) <= 60_000
