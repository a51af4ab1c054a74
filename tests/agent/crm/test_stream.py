"""A resource manager and its controller, over a real socket: how the stream begins, breaks and goes
on, and what is planned to go wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from agent.crm.crm import cloudlet_key
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, Cloudlet
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey
from protos.gen.edge.common_pb2 import CREATE_REQUESTED, CREATING, READY
from protos.gen.edge.flavor_pb2 import Flavor, FlavorKey
from protos.gen.edge.node_pb2 import NODE_CRM
from protos.gen.edge.notice_pb2 import SENDALL_END, VERSION
from protos.gen.edge.notice_pb2_grpc import add_NotifyApiServicer_to_server
from sim.crm import practice
from sim.faults import Faults
from sim.troubles import fault
from tests.agent.crm.controller import Controller
from tests.support.load import limit

SECONDS = 40
PLACE = cloudlet_key("tele/west")
CLUSTER = ClusterInstKey(cluster_key=ClusterKey(name="c"), cloudlet_key=PLACE, developer="acme")


@pytest.fixture
async def controller() -> AsyncIterator[tuple[Controller, str]]:
    controller, server = Controller(), grpc.aio.server()
    add_NotifyApiServicer_to_server(controller, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield controller, f"127.0.0.1:{port}"
    await server.stop(None)


@asynccontextmanager
async def managing(address: str, *troubles: str) -> AsyncIterator[Any]:
    faults = Faults()
    for trouble in troubles:
        faults.add(fault(trouble))
    crm = practice(PLACE, ["127.0.0.1:1", address], faults)
    running = asyncio.create_task(crm.run())
    yield crm
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


def wanted() -> ClusterInst:
    return ClusterInst(key=CLUSTER, state=CREATE_REQUESTED)


async def test_says_what_it_is_and_what_it_wants(controller: tuple[Controller, str]) -> None:
    other, address = controller
    async with managing(address):
        await other.until(lambda: other.everything)
        await other.until(lambda: "CloudletInfo" in other.infos)
        [hello] = other.hellos
        assert (hello.action, hello.version, hello.filter_cloudlet_key) == (VERSION, 1, True)
        names = ("Flavor", "App", "AppInst", "Cloudlet", "ClusterInst", "ExecRequest")
        assert list(hello.want_objs) == [f"edgeproto.{name}" for name in names]
        info, node = other.infos["CloudletInfo"], other.infos["Node"]
        assert (info.key, info.state, info.os_max_ram) == (PLACE, CLOUDLET_STATE_READY, 500)
        assert (node.key.node_type, node.key.cloudlet_key) == (NODE_CRM, PLACE)


async def test_comes_back_and_says_everything_again(controller: tuple[Controller, str]) -> None:
    other, address = controller
    async with managing(address) as crm:
        await other.until(lambda: other.infos.get("CloudletInfo"))
        other.tell(wanted())
        other.tell(Flavor(key=FlavorKey(name="old")))
        await other.until(lambda: other.said[-1:] == ["READY"])
        other.said.clear()
        crm.stream.lose()
        await other.until(lambda: len(other.hellos) == 2 and other.said)
        assert other.said == ["READY"]
        assert crm.replica.flavor(FlavorKey(name="old"))  # it keeps what it has meanwhile
        other.tell(Flavor(key=FlavorKey(name="new")))
        other.tell(None, SENDALL_END)
        other.tell(Cloudlet(key=PLACE))
        async with limit(SECONDS):
            while True:
                await asyncio.sleep(0.01)
                if crm.replica.flavor(FlavorKey(name="old")) is None:
                    break
        assert crm.replica.flavor(FlavorKey(name="new"))


@pytest.mark.parametrize(
    ("trouble", "ends"),
    [
        ("crm-create-fails", "CREATE_ERROR"),
        ("crm-slow,seconds=0.01", "READY"),
        ("crm-drops", "READY"),
    ],
)
async def test_goes_wrong_as_planned(
    controller: tuple[Controller, str], trouble: str, ends: str
) -> None:
    other, address = controller
    async with managing(address, trouble):
        await other.until(lambda: other.infos.get("CloudletInfo"))
        other.tell(wanted())
        await other.until(lambda: other.said[-1:] == [ends])
        assert len(other.hellos) == (2 if trouble == "crm-drops" else 1)


async def test_who_is_started_anew_goes_on_with_what_was_begun(
    controller: tuple[Controller, str],
) -> None:
    other, address = controller
    async with managing(address, "crm-restarts"):
        await other.until(lambda: other.infos.get("CloudletInfo"))
        other.tell(wanted())
        await other.until(lambda: len(other.hellos) == 2 and other.everything == 2)
        other.tell(ClusterInst(key=CLUSTER, state=CREATING))
        await other.until(lambda: other.said[-1:] == ["READY"])
        assert "CREATE_ERROR" not in other.said
        assert other.infos["ClusterInstInfo"].state == READY
