"""Tokens that are bound to cloudlets: what a resource manager may say with one, and hear."""

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from protos.gen.edge.app_inst_pb2 import AppInstInfo
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInstInfo
from protos.gen.edge.common_pb2 import READY
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.metric_pb2 import Metric, MetricTag
from protos.gen.edge.node_pb2 import Node, NodeKey
from protos.gen.edge.notice_pb2 import UPDATE, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from protos.gen.ops.access_pb2 import CreateTokenRequest, ListTokensRequest
from settings import Auth, Settings
from store.engine import Database
from tests.api.caller import Caller, Refusal, refused
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.api.signed import Entry, bearer, people

SECONDS = 40


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"auth": Auth(mode="required")})


@pytest.fixture
async def tokens(database: Database) -> dict[str, str]:
    return await people(database)


@pytest.fixture
async def bound(caller: Caller, tokens: dict[str, str]) -> str:
    """A token for the resource manager of tele/west."""
    asked = CreateTokenRequest(user="agent-7", label="west", cloudlets=["tele/west"])
    made = await Entry(caller.channel).tokens.Create(
        asked, metadata=bearer(tokens["ada"]), timeout=20
    )
    assert list(made.token.cloudlets) == ["tele/west"]
    return str(made.secret)


def said(message: Message) -> Notice:
    packed = Packed()
    packed.Pack(message)
    return Notice(action=UPDATE, any=packed)


class Speaking:
    """A stream that says a few things."""

    def __init__(self, caller: Caller, token: str, *, filtered: bool = True) -> None:
        self.call = NotifyApiStub(caller.channel).StreamNotice(
            metadata=bearer(token), timeout=SECONDS
        )
        self._hello = Notice(action=VERSION, version=1, filter_cloudlet_key=filtered)

    async def __call__(self, *messages: Message) -> None:
        await self.call.write(self._hello)
        await self.call.read()
        for message in messages:
            await self.call.write(said(message))

    async def refused(self, *messages: Message) -> Refusal:
        async def to_its_end() -> None:
            await self(*messages)
            while await self.call.read() is not grpc.aio.EOF:
                pass

        return await refused(to_its_end())


SAYINGS: dict[str, Callable[[str], Message]] = {
    "CloudletInfo": lambda where: stubs.info(where),
    "ClusterInstInfo": lambda where: ClusterInstInfo(
        key=stubs.clusterinst_key(place=where), state=READY
    ),
    "AppInstInfo": lambda where: AppInstInfo(key=stubs.appinst(key={"place": where}).key),
    "Node": lambda where: Node(key=NodeKey(cloudlet_key=stubs.cloudlet(where).key)),
    "ExecRequest": lambda where: ExecRequest(app_inst_key=stubs.appinst(key={"place": where}).key),
    "Metric": lambda where: Metric(
        name="m",
        tags=[MetricTag(name="operator", val="tele"), MetricTag(name="cloudlet", val=where)],
    ),
}


@pytest.mark.parametrize("kind", SAYINGS)
async def test_it_speaks_of_its_own_cloudlet_alone(
    caller: Caller, tokens: dict[str, str], bound: str, kind: str
) -> None:
    refusal = await Speaking(caller, bound).refused(
        stubs.info(), SAYINGS[kind]("west"), SAYINGS[kind]("east")
    )
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.message == "agent-7 may not speak of cloudlet tele/east with this token"
    edge = Edge(caller.channel)
    infos = await edge("ShowCloudletInfo", CloudletInfo(), metadata=bearer(tokens["ada"]))
    assert [info.key.name for info in infos] == ["west"]


async def test_it_hears_of_its_own_cloudlet_alone(caller: Caller, bound: str) -> None:
    refusal = await Speaking(caller, bound, filtered=False).refused()
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.message == "agent-7 may not hear of all cloudlets with this token"


async def test_a_token_that_names_no_cloudlet_speaks_of_none(
    caller: Caller, tokens: dict[str, str]
) -> None:
    """It is a node's, which has none."""
    refusal = await Speaking(caller, tokens["agent-7"]).refused(stubs.info())
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.message == "agent-7 may not speak of cloudlet tele/west with this token"
    refusal = await Speaking(caller, tokens["agent-7"], filtered=False).refused()
    assert refusal.message == "agent-7 may not hear of all cloudlets with this token"
    asked = CreateTokenRequest(label="more", cloudlets=["tele/west"])
    creating = Entry(caller.channel).tokens.Create(
        asked, metadata=bearer(tokens["agent-7"]), timeout=20
    )
    assert (await refused(creating)).message == "agent-7 may speak of no cloudlet with this token"


@pytest.mark.parametrize("who", ["agent-7", "ole"])
async def test_who_may_speak_of_any_is_said_to_or_may_change_them_anyway(
    caller: Caller, tokens: dict[str, str], who: str
) -> None:
    token = tokens[who]
    if who == "agent-7":
        asked = CreateTokenRequest(user=who, label="all", cloudlets=["tele/west", "any"])
        created = await Entry(caller.channel).tokens.Create(
            asked, metadata=bearer(tokens["ada"]), timeout=20
        )
        assert list(created.token.cloudlets) == ["any"]
        token = created.secret
    speaking = Speaking(caller, token, filtered=False)
    await speaking(stubs.info("west"), stubs.info("east"))
    edge = Edge(caller.channel)
    while True:
        infos = await edge("ShowCloudletInfo", CloudletInfo(), metadata=bearer(tokens["ada"]))
        if [info.state for info in infos] == [CLOUDLET_STATE_READY] * 2:
            break
    speaking.call.cancel()


async def test_nobody_gives_away_more_than_they_have(
    caller: Caller, tokens: dict[str, str], bound: str
) -> None:
    entry = Entry(caller.channel)

    async def create(**asked: Any) -> Any:
        wanted = CreateTokenRequest(label="more", **asked)
        return await entry.tokens.Create(wanted, metadata=bearer(bound), timeout=20)

    assert list((await create()).token.cloudlets) == ["tele/west"]
    refusal = await refused(create(cloudlets=["tele/west", "tele/east"]))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    refusal = await refused(create(cloudlets=["any"]))
    assert refusal.message == "agent-7 may speak of tele/west alone with this token"
    assert (await refused(create(cloudlets=["west"]))).fields == ["cloudlets"]
    everything = ListTokensRequest(user="agent-7")
    listed = await entry.tokens.List(everything, metadata=bearer(tokens["ada"]), timeout=20)
    bindings = sorted(list(token.cloudlets) for token in listed.tokens)
    assert bindings == [[], ["tele/west"], ["tele/west"]]


@pytest.mark.parametrize("method", ["InjectCloudletInfo", "EvictCloudletInfo"])
async def test_what_a_test_puts_in_its_place_is_held_to_it_too(
    caller: Caller, tokens: dict[str, str], method: str
) -> None:
    entry, edge = Entry(caller.channel), Edge(caller.channel)
    asked = CreateTokenRequest(user="ole", label="west", cloudlets=["tele/west"])
    made = await entry.tokens.Create(asked, metadata=bearer(tokens["ada"]), timeout=20)
    await edge("InjectCloudletInfo", stubs.info("east"), metadata=bearer(tokens["ole"]))
    await edge("InjectCloudletInfo", stubs.info("west"), metadata=bearer(made.secret))
    await edge(method, stubs.info("west"), metadata=bearer(made.secret))
    refusal = await edge.refused(method, stubs.info("east"), metadata=bearer(made.secret))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
