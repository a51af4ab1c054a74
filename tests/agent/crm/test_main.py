"""`python -m agent.crm`: what it takes, and that it starts and stops."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE

import grpc.aio
import pytest

from agent.crm.__main__ import flavor, instance_type, parser, platform
from agent.crm.kaas import Kaas
from agent.crm.simulated import Simulated
from domain.errors import Invalid
from protos.gen.edge.cloudlet_pb2 import FlavorInfo
from protos.gen.edge.notice_pb2_grpc import add_NotifyApiServicer_to_server
from tests.agent.crm.controller import Controller
from tests.support.load import limit

SECONDS = 50
USUAL = ["--cloudlet", "tele/west", "--controller", "a:1"]


async def test_a_platform_is_chosen() -> None:
    assert isinstance(platform(parser().parse_args(USUAL)), Simulated)
    with pytest.raises(Invalid, match="needs a Windlass"):
        platform(parser().parse_args([*USUAL, "--platform", "kaas"]))
    words = ["--platform", "kaas", "--kaas", "b:2", "--flavor", "big:8:16384:100", "--vcores", "9"]
    chosen = platform(parser().parse_args([*USUAL, *words]))
    assert isinstance(chosen, Kaas)
    found = await chosen.resources()
    assert list(found.flavors) == [FlavorInfo(name="big", vcpus=8, ram=16384, disk=100)]
    assert found.vcores == 9
    await chosen.close()


@pytest.mark.parametrize("text", ["big", "=type", "big="])
def test_what_is_no_instance_type_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        instance_type(text)
    assert caught.value.do == "write FLAVOR=TYPE"
    assert instance_type("big=c5.large") == ("big", "c5.large")


@pytest.mark.parametrize("text", ["big", "big:1:2", ":1:2:3", "big:1:2:x"])
def test_what_is_no_flavor_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        flavor(text)
    assert caught.value.do == "write NAME:VCPUS:RAM_MB:DISK_GB"


async def test_a_process_connects_and_ends_when_told() -> None:
    controller, server = Controller(), grpc.aio.server()
    add_NotifyApiServicer_to_server(controller, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    words = ["-m", "agent.crm", "--cloudlet", "tele/west", "--controller", f"127.0.0.1:{port}"]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE)
    assert process.stdout is not None
    async with limit(SECONDS):
        async for line in process.stdout:
            if line.startswith(b"{"):
                break
        assert json.loads(line) == {"cloudlet": "tele/west", "connected": True}
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    await server.stop(None)
