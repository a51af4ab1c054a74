"""Commands in containers: who is asked, who answers, and who is told why nobody did."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest

from api import build
from api.__main__ import Api
from api.errors import CODES
from api.launch import client
from domain.refusal import Refusal
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from protos.gen.edge.common_pb2 import IGNORE_CRM
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.exec_pb2_grpc import ExecApiStub
from settings import Edge as Terms
from settings import Settings
from sim.crm import practice
from sim.faults import Faults
from tests.api.caller import NOBODY, Caller
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.support.load import limit

SECONDS = 40
CODE = grpc.StatusCode
REQUEST = ExecRequest(app_inst_key=stubs.appinst().key, command="ls", offer="o")


@pytest.fixture
def terms() -> Terms:
    return Terms(exec_patience=timedelta(seconds=SECONDS))


@pytest.fixture
async def placed(edge: Edge) -> None:
    """An instance that runs."""
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateApp", stubs.app())
    await edge("CreateCloudlet", stubs.cloudlet())
    await edge("InjectCloudletInfo", stubs.info())
    await edge("CreateClusterInst", stubs.clusterinst(crm_override=IGNORE_CRM))
    await edge("CreateAppInst", stubs.appinst(crm_override=IGNORE_CRM))
    await edge("EvictCloudletInfo", stubs.info())


@pytest.fixture
async def crm(edge: Edge, caller: Caller, placed: None) -> AsyncIterator[Peer]:
    peer = Peer(caller.channel, filtered=True)
    peer.tell(stubs.info())
    await peer.until(lambda: peer.names("AppInst"))
    yield peer
    await peer.lose()


def heard(peer: Peer) -> list[ExecRequest]:
    return [ExecRequest.FromString(packed.value) for packed in peer.messages if packed.value]


async def test_who_is_asked_answers(edge: Edge, crm: Peer) -> None:
    first, second = (asyncio.create_task(edge("RunCommand", REQUEST)) for _ in range(2))
    await crm.until(lambda: len(heard(crm)) == 2)
    one, other = heard(crm)
    assert (one.command, one.offer, one.app_inst_key) == ("ls", "o", REQUEST.app_inst_key)
    other.answer = "second"  # what a peer does not know it hands back
    crm.tell(other)
    plain = ExecRequest(app_inst_key=REQUEST.app_inst_key, offer="o", answer="first")
    crm.tell(ExecRequest(offer="another's", answer="no"))
    crm.tell(plain)
    answers = [(await each)[0] for each in (first, second)]
    assert sorted(each.answer for each in answers) == ["first", "second"]
    assert plain in answers
    crm.tell(plain)  # nobody waits for it any more


async def test_what_it_says_of_why_not_is_told(edge: Edge, crm: Peer) -> None:
    asked = asyncio.create_task(edge.refused("RunCommand", REQUEST))
    await crm.until(lambda: heard(crm))
    crm.tell(ExecRequest(app_inst_key=REQUEST.app_inst_key, offer="o", err="no such container"))
    refusal = await asked
    assert (refusal.code, refusal.message) == (CODE.ABORTED, "no such container")
    asked = asyncio.create_task(edge.refused("RunCommand", REQUEST))
    await crm.until(lambda: len(heard(crm)) == 2)
    await crm.lose()
    refusal = await asked
    assert (refusal.code, refusal.message) == (CODE.UNAVAILABLE, "no one answered the offer")


async def test_nobody_is_asked_who_is_not_there(edge: Edge, placed: None) -> None:
    refusal = await edge.refused("RunCommand", ExecRequest(command="ls"))
    assert (refusal.code, refusal.message) == (CODE.NOT_FOUND, "Key not found")
    for method in ("RunCommand", "SendLocalRequest"):
        refusal = await edge.refused(method, REQUEST)
        assert (refusal.code, refusal.message) == (CODE.UNAVAILABLE, "no one answered the offer")


async def test_nobody_is_called_who_is_no_controller(edge: Edge, placed: None) -> None:
    """Whoever may inject a cloudlet's description would be sent the callers' tokens."""
    called = asyncio.Event()

    def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    stranger = await asyncio.start_server(take, "127.0.0.1")
    async with stranger:
        port = stranger.sockets[0].getsockname()[1]
        await edge("InjectCloudletInfo", stubs.info(controller=f"somebody@127.0.0.1:{port}"))
        refusal = await edge.refused("RunCommand", REQUEST)
    assert (refusal.code, refusal.message) == (CODE.UNAVAILABLE, "no one answered the offer")
    assert not called.is_set()


class TestSoon:
    @pytest.fixture
    def terms(self) -> Terms:
        return Terms(exec_patience=timedelta(seconds=0.2))

    @pytest.mark.usefixtures("crm")
    async def test_who_does_not_answer_is_not_waited_for(self, edge: Edge) -> None:
        refusal = await edge.refused("RunCommand", REQUEST)
        assert (refusal.code, refusal.message) == (CODE.DEADLINE_EXCEEDED, "exec request timed out")


UNPLACED = ExecRequest(app_inst_key=stubs.appinst("none").key, command="ls")
REFUSED: dict[Refusal, tuple[ExecRequest, str | None, str]] = {
    Refusal.KEY_UNKNOWN: (UNPLACED, None, "Key not found"),
    Refusal.EXEC_FAILED: (REQUEST, "no such container", "no such container"),
    Refusal.EXEC_TIMEOUT: (REQUEST, None, "exec request timed out"),
    Refusal.EXEC_NOBODY: (REQUEST, "", "no one answered the offer"),
}
"""What is asked for, why its resource manager says that it cannot be done, and what the caller is
told. It says nothing (None), or hangs up (empty)."""


@pytest.mark.parametrize("legacy", [False, True], ids=["proper", "legacy"])
class TestRefusals:
    @pytest.fixture
    def terms(self, legacy: bool) -> Terms:
        return Terms(exec_patience=timedelta(seconds=2), legacy_codes=legacy)

    async def test_says_no_to_the_byte(self, legacy: bool, edge: Edge, crm: Peer) -> None:
        for refusal, (request, why, text) in REFUSED.items():
            before = len(heard(crm))
            asking = asyncio.create_task(edge.refused("RunCommand", request))
            if why is not None:
                await crm.until(partial(lambda before: len(heard(crm)) > before, before))
                if why:
                    crm.tell(ExecRequest(app_inst_key=request.app_inst_key, offer="o", err=why))
                else:
                    await crm.lose()
            told = await asking
            assert (told.message, told.reason) == (text, refusal.name)
            assert told.code is (CODE.UNKNOWN if legacy else CODES[refusal.kind])


async def test_another_process_asks_for_us(
    edge: Edge, placed: None, settings: Settings, caller: Caller
) -> None:
    """The instance runs where a resource manager of ours is connected to the other process."""
    other = Api(settings, await client(NOBODY, "default"), build.Build())
    address, _ = await other.start()
    crm = practice(stubs.cloudlet().key, [address], Faults())
    managing = asyncio.create_task(crm.run())
    async with limit(SECONDS):
        while True:
            infos = await edge("ShowCloudletInfo", CloudletInfo())
            if infos and crm.replica.instance(REQUEST.app_inst_key):
                break
            await asyncio.sleep(0.02)
    request: Any = ExecRequest(app_inst_key=REQUEST.app_inst_key, command="echo hello")
    refusal = await edge.refused("RunCommand", request)
    assert (refusal.code, refusal.message) == (CODE.ABORTED, "there is no container of this app")
    place = crm.platform.name(AppInst(key=REQUEST.app_inst_key))
    crm.platform.apps[place] = ("shop-0",)  # type: ignore[attr-defined]
    [answer] = await edge("RunCommand", request)
    told = json.loads(answer.answer)
    assert (told["exit_code"], told["stdout"], told["stderr"]) == (0, "hello\n", "")
    async with grpc.aio.insecure_channel(address) as channel:
        direct = await ExecApiStub(channel).SendLocalRequest(request, timeout=SECONDS)
    assert direct.answer == answer.answer
    managing.cancel()
    await asyncio.wait([managing])
    await other.stop()
