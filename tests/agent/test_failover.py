"""Agents and resource managers whose API process goes away while another one lives: they go on
there, whether the other one is a second address or a second answer of DNS."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from agent.__main__ import KEEPALIVE
from agent.bearing import opened
from agent.crm.crm import cloudlet_key
from agent.failover import addresses
from agent.simulated import Simulated
from agent.whole import Agent, Plan
from domain.errors import Invalid
from domain.placement import Amounts
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey
from protos.gen.edge.common_pb2 import CREATE_REQUESTED
from protos.gen.edge.notice_pb2_grpc import add_NotifyApiServicer_to_server
from sim.crm import practice
from sim.faults import Faults
from tests.agent.control import Control
from tests.agent.crm.controller import Controller
from tests.support.load import limit

SECONDS = 60
NAME = "api.example"
HOSTS = ("127.0.0.2", "127.0.0.3")


class Dns(asyncio.DatagramProtocol):
    """A name server that knows one name, of several addresses."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        end = data.index(b"\0", 12) + 5
        is_address = data[end - 4 : end - 2] == b"\0\1"
        answers = [
            struct.pack("!HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(host)
            for host in HOSTS
            if is_address
        ]
        header = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(answers), 0, 0)
        self._transport.sendto(header + data[12:end] + b"".join(answers), addr)


@asynccontextmanager
async def dns() -> AsyncIterator[int]:
    """The port of a name server."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Dns, local_addr=("127.0.0.1", 0))
    yield transport.get_extra_info("sockname")[1]
    transport.close()


@asynccontextmanager
async def node(control: str, folder: Path) -> AsyncIterator[None]:
    channel = opened(control, KEEPALIVE)
    has = Amounts(cpu=1000, memory=1000, disk=10)
    plan = Plan(node="n1", folder=folder / "state", has=has, grace_seconds=1)
    agent = Agent(plan, Simulated(folder=folder), channel)
    await agent.start()
    try:
        yield
    finally:
        await agent.stop()
        await channel.close()


@pytest.fixture
async def controls() -> AsyncIterator[list[Control]]:
    """Two control planes, at the same port of two hosts."""
    found = [Control(), Control()]
    port = 0
    for control, host in zip(found, HOSTS, strict=True):
        await control.start(host, port)
        port = int(control.address.rpartition(":")[2])
    yield found
    for control in found:
        await control.stop()


async def any_of(controls: Sequence[Control]) -> tuple[Control, Control]:
    """At which a node says that it lives, and the other one."""

    def beats(control: Control) -> Any:
        return control.until(lambda: control.beats)

    waiting = [asyncio.create_task(beats(each)) for each in controls]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    here, there = sorted(controls, key=lambda each: not each.beats)
    assert here.beats
    return here, there


async def test_a_node_goes_on_at_the_other_address_and_back(
    controls: list[Control], tmp_path: Path
) -> None:
    async with node(", ".join(each.address for each in controls), tmp_path):
        here, there = await any_of(controls)
        await here.stop()
        there.beats.clear()
        await there.until(lambda: there.beats)
        assert there.beats[0].id == "n1"
        again, (host, port) = Control(), here.address.split(":")
        await again.start(host, int(port))
        await there.stop()
        await again.until(lambda: again.beats)
        await again.stop()


async def test_a_node_goes_on_at_the_second_answer_of_dns(
    controls: list[Control], tmp_path: Path
) -> None:
    port = controls[0].address.rpartition(":")[2]
    async with dns() as server, node(f"dns://127.0.0.1:{server}/{NAME}:{port}", tmp_path):
        here, there = await any_of(controls)
        await here.stop()
        there.beats.clear()
        await there.until(lambda: there.beats)
        assert there.beats[0].id == "n1"


async def test_an_address_that_takes_connections_and_says_nothing_is_left(
    controls: list[Control], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process does that is frozen."""
    monkeypatch.setattr("agent.bearing.random.randrange", lambda _: 0)
    held: list[asyncio.StreamWriter] = []

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with node(f"{address},{controls[0].address}", tmp_path):
            await controls[0].until(lambda: controls[0].beats)
        assert held
        for writer in held:
            writer.close()


async def test_a_resource_manager_goes_on_at_the_second_controller() -> None:
    place = cloudlet_key("tele/west")
    async with AsyncExitStack() as stack:
        served: dict[str, tuple[Controller, grpc.aio.Server]] = {}
        for _ in range(2):
            controller, server = Controller(), grpc.aio.server()
            add_NotifyApiServicer_to_server(controller, server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            stack.push_async_callback(server.stop, None)
            served[f"127.0.0.1:{port}"] = controller, server
        crm = practice(place, addresses(",".join(served)), Faults())
        running = asyncio.create_task(crm.run())
        async with limit(SECONDS):
            await crm.stream.connected.wait()
        [(_, server)] = [each for each in served.values() if each[0].hellos]
        [(other, _)] = [each for each in served.values() if not each[0].hellos]
        await server.stop(None)
        await other.until(lambda: other.infos.get("CloudletInfo"))
        other.tell(ClusterInst(key=ClusterInstKey(cloudlet_key=place), state=CREATE_REQUESTED))
        await other.until(lambda: other.said[-1:] == ["READY"])
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize("text", ["", "a:1,", ",a:1", "a:1,,b:1"])
def test_a_missing_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="lacks an address"):
        addresses(text)
    assert addresses("a:1, b:2") == ["a:1", "b:2"]
