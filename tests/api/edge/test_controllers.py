"""API processes that know of each other, and of what is connected to each."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from socket import gethostname

import grpc.aio
import pytest

from api import build
from api.__main__ import Api
from api.edge import keys
from api.edge.descriptions import Descriptions
from api.edge.nodes import Attached, NodeApi
from api.edge.presence import Presence, reached_at
from api.edge.streams import Streams
from api.launch import client
from domain.errors import Unavailable
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.controller_pb2 import Controller, ControllerKey
from protos.gen.edge.node_pb2 import NODE_CRM, NODE_DME, Node, NodeKey
from protos.gen.edge.node_pb2_grpc import add_NodeApiServicer_to_server
from settings import Edge as Terms
from settings import Settings
from store.controllers import Controllers
from store.engine import Database
from store.lookout import Lookout
from store.shelf import Shelf
from tests.api.caller import NOBODY, Caller
from tests.api.edge.stubs import Edge, cloudlet
from tests.support.load import grown, limit

LEASE = timedelta(minutes=1)


@pytest.fixture
def terms() -> Terms:
    return Terms(node_patience=timedelta(seconds=1))


@pytest.fixture
async def second(settings: Settings, caller: Caller) -> AsyncIterator[Api]:
    """Another process at the database of the first one, which is there already."""
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    yield api
    await api.stop()


async def alive(edge: Edge, count: int) -> set[str]:
    """Who is alive, once there are so many."""
    async with limit(20):
        while True:
            found = await edge("ShowController", Controller())
            if len(found) == count:
                break
            await asyncio.sleep(0.02)
    return {each.key.addr for each in found}


async def test_processes_know_of_each_other_while_they_are_there(
    edge: Edge, caller: Caller, second: Api
) -> None:
    assert await alive(edge, 1) == {caller.address}
    other, _ = await second.start()
    assert await alive(edge, 2) == {caller.address, other}
    example = Controller(key=ControllerKey(addr=other))
    assert await edge("ShowController", example) == [example]
    await second.stop()
    assert await alive(edge, 1) == {caller.address}


@pytest.mark.parametrize(
    ("said", "listens", "reached"),
    [
        ("", "10.0.0.7:9020", "10.0.0.7:9020"),
        ("", "[::1]:9020", "[::1]:9020"),
        ("api.example:443", "10.0.0.7:9020", "api.example:443"),
    ],
)
def test_is_reached_where_it_is_said_or_where_it_listens(
    said: str, listens: str, reached: str
) -> None:
    assert reached_at(said, listens) == reached


def test_who_listens_everywhere_is_reached_by_name() -> None:
    assert reached_at("", "[::]:9020") == f"{gethostname()}:9020"


async def test_nodes_of_all_who_answer_are_shown(edge: Edge, database: Database) -> None:
    attached = Attached()
    controllers = Controllers(database)
    server = grpc.aio.server()
    add_NodeApiServicer_to_server(NodeApi(attached, controllers, LEASE, str), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    for address in (f"127.0.0.1:{port}", NOBODY):
        await controllers.keep(address, LEASE)
    crm, dme = Node(key=NodeKey(name="a", node_type=NODE_CRM), notify_id=1), Node(notify_id=2)
    dme.key.CopyFrom(NodeKey(name="b", node_type=NODE_DME))
    for stream, node in ((1, crm), (1, crm), (2, dme)):
        attached.put(stream, node)
    assert await edge("ShowNode", Node()) == [crm, dme]
    assert await edge("ShowNode", Node(key=NodeKey(node_type=NODE_DME))) == [dme]
    assert await edge("ShowNodeLocal", Node()) == []
    attached.drop(1)
    assert await edge("ShowNode", Node()) == [dme]
    await server.stop(None)


async def test_who_lets_nobody_in_is_not_there(database: Database) -> None:
    controllers, asked = Controllers(database), asyncio.Event()
    open_ = False

    async def admit() -> None:
        asked.set()
        if not open_:
            raise Unavailable("not yet")

    presence = Presence(controllers, timedelta(seconds=0.3), admit)
    keeping = asyncio.create_task(presence.run("a:1"))
    await asyncio.wait_for(asked.wait(), grown(20))
    assert await controllers.alive() == []
    open_ = True
    async with limit(20):
        while True:
            if await controllers.alive():
                break
            await asyncio.sleep(0.02)
    keeping.cancel()
    await asyncio.wait([keeping])
    assert await controllers.alive() == []


async def nothing() -> None:
    pass


async def test_a_former_life_puts_no_cloudlet_of_the_present_one_offline(
    database: Database,
) -> None:
    """A process that goes down may write late that its streams have ended. One at the same address
    has other numbers for its own."""
    shelf, key = Shelf(database), cloudlet().key
    lives = [Presence(Controllers(database), LEASE, nothing) for _ in range(2)]
    numbers = []
    for presence in lives:
        keeping = asyncio.create_task(presence.run("a:1"))
        await asyncio.wait_for(presence.entered(), 60)
        streams = Streams(Lookout(database), Descriptions(shelf, presence).stream)
        streams.begin_after(presence.last_stream)
        async with streams.opened((), filtered=True) as stream:
            described = CloudletInfo(key=key, state=CLOUDLET_STATE_READY)
            await Descriptions(shelf, presence).put(
                stream.number, described, lambda: True, again=False
            )
            numbers.append(stream.number)
        keeping.cancel()
        await asyncio.wait([keeping])
    former, now = (Descriptions(shelf, presence) for presence in lives)
    await former.put_offline(numbers[0], keys.written(key))
    info = await now.get(keys.written(key))
    assert numbers == [1, 2]
    assert info is not None
    assert info.state == CLOUDLET_STATE_READY
