"""A small crowd; `make reliability` runs it with a thousand resource managers."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc.aio
import pytest

from api import build
from api.__main__ import Api
from api.launch import client
from domain.operation import Ask
from domain.record import Noun, Record
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY
from protos.gen.edge.notice_pb2 import VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from settings import Edge as Terms
from settings import Settings, Temporal
from sim.crm import practice
from sim.faults import Faults
from store import schema
from store.engine import Database
from store.shelf import Shelf
from tests.api.caller import NOBODY
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.reliability.crowd import Cable, Crowd
from tests.reliability.returning import CHANGED, returned
from tests.support.load import limit

PEERS, OBJECTS, SECONDS = 30, 500, 50


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncIterator[tuple[Crowd, str, str]]:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    settings = Settings(
        database=url,
        key_file=tmp_path / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address=NOBODY),
        edge=Terms(notify_address="127.0.0.1:0"),
    )
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    address, _ = await api.start()
    async with grpc.aio.insecure_channel(address) as channel:
        crowd = Crowd(Edge(channel), api.notify_address)
        yield crowd, api.notify_address, url
        await crowd.close()
    await api.stop()


def _has_all(peer: Peer) -> bool:
    return len(peer.names("Flavor")) == OBJECTS + 1


async def test_a_change_reaches_all_while_one_does_not_read(
    crowd: tuple[Crowd, str, str],
) -> None:
    peers, address, url = crowd
    await peers.describe(PEERS)
    async with grpc.aio.insecure_channel(address) as channel:
        deaf = NotifyApiStub(channel).StreamNotice()
        await deaf.write(Notice(action=VERSION, version=1, want_objs=["edgeproto.Flavor"]))
        await peers.connect(PEERS)
        database = Database(url)
        shelf = Shelf(database)
        for number in range(OBJECTS):
            flavor = stubs.flavor(f"f{number}")
            value = flavor.SerializeToString()
            key = f'{{"name":"f{number}"}}'
            await shelf.create(
                Record(noun=Noun.FLAVOR, key=key, value=value), [], Ask(method="test")
            )
        await database.close()
        assert len(await peers.told("last")) == PEERS
        for peer in peers.peers:
            await peer.until(partial(_has_all, peer))
        whole = Peer(channel)
        await whole.synced()
        assert len(whole.names("Flavor")) == OBJECTS + 1
        await whole.lose()
        assert await peers.states() == {CLOUDLET_STATE_READY}
        deaf.cancel()


async def test_who_comes_back_knows_what_is_there_by_now(crowd: tuple[Crowd, str, str]) -> None:
    peers, address, url = crowd
    back = await returned(peers.edge, url, address, 2 * CHANGED)
    assert back.broken == []


async def test_a_silence_of_the_network_changes_nothing(crowd: tuple[Crowd, str, str]) -> None:
    peers, address, _ = crowd
    await peers.describe(1)
    async with Cable.laid(address) as cable:
        crm = practice(stubs.cloudlet("place-0").key, [cable.address], Faults())
        managing = asyncio.create_task(crm.run())
        async with limit(SECONDS):
            while True:
                if await peers.states() == {CLOUDLET_STATE_READY}:
                    break
                await asyncio.sleep(0.02)
            with cable.cut():
                await peers.edge("CreateFlavor", stubs.flavor("meanwhile"))
                assert await peers.states() == {CLOUDLET_STATE_READY}
            while True:
                if crm.replica.flavor(stubs.flavor("meanwhile").key):
                    break
                await asyncio.sleep(0.02)
        managing.cancel()
        await asyncio.wait([managing])
