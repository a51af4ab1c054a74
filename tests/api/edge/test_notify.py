"""Streams of notify, over real sockets, with peers made of the contract alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
from httpx2 import AsyncClient

from api import build
from api.__main__ import Api
from api.edge import keys
from api.launch import client
from protos.gen.edge.app_inst_pb2 import AppInstMetrics
from protos.gen.edge.cloudlet_pb2 import (
    CLOUDLET_STATE_OFFLINE,
    CLOUDLET_STATE_READY,
    CloudletInfo,
    CloudletMetrics,
)
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import CREATE_ERROR, CREATE_REQUESTED, READY
from protos.gen.edge.metric_pb2 import Metric, MetricTag, MetricVal
from protos.gen.edge.node_pb2 import NODE_CRM, Node, NodeKey
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from settings import Edge as Terms
from settings import Settings
from store import lookout
from tests.api.caller import NOBODY, Caller, Refusal, refused
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.support.load import limit

SECONDS = 40
Connect = Callable[..., Peer]


@pytest.fixture
def terms() -> Terms:
    return Terms(notify_address="127.0.0.1:0")


@pytest.fixture
async def channel(api: Api, caller: Caller) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(api.notify_address, options=OWN) as channel:
        yield channel


OWN = [("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture
async def connect(channel: grpc.aio.Channel) -> AsyncIterator[Connect]:
    peers = []

    def connect(**how: Any) -> Peer:
        peers.append(Peer(how.pop("channel", channel), **how))
        return peers[-1]

    yield connect
    for peer in peers:
        await peer.lose()


def info(name: str = "west", **more: Any) -> CloudletInfo:
    return CloudletInfo(key=stubs.cloudlet(name).key, **{"state": CLOUDLET_STATE_READY, **more})


async def until(ask: Callable[[], Awaitable[Any]], wanted: Callable[[Any], object]) -> Any:
    """What is answered, once it is what is waited for."""
    async with limit(SECONDS):
        while True:
            if wanted(found := await ask()):
                return found
            await asyncio.sleep(0.02)


async def stated(edge: Edge, state: int, **filter: Any) -> CloudletInfo:
    """What is known of the only cloudlet, once it is in a state."""

    async def ask() -> list[CloudletInfo]:
        return await edge("ShowCloudletInfo", CloudletInfo(**filter))

    [found] = await until(ask, lambda infos: infos and infos[0].state == state)
    return found  # type: ignore[no-any-return]


async def unversioned(channel: grpc.aio.Channel) -> Refusal:
    """What a peer is told that begins with anything else."""

    async def first() -> Any:
        stream = NotifyApiStub(channel).StreamNotice(iter([Notice()]), timeout=SECONDS)
        return await stream.read()

    return await refused(first())


@pytest.mark.parametrize("legacy", [False, True], ids=["proper", "legacy"])
class TestVersion:
    @pytest.fixture
    def terms(self, legacy: bool) -> Terms:
        return Terms(notify_address="127.0.0.1:0", legacy_codes=legacy)

    async def test_nobody_is_listened_to_without_it(
        self, legacy: bool, channel: grpc.aio.Channel, caller: Caller
    ) -> None:
        """On the listener of its own and on the one of everybody."""
        for door in (channel, caller.channel):
            told = await unversioned(door)
            assert (told.message, told.reason) == (
                "Notify server expected action version",
                "NOTIFY_VERSION",
            )
            code = grpc.StatusCode.UNKNOWN if legacy else grpc.StatusCode.INVALID_ARGUMENT
            assert told.code is code


async def test_begins_with_the_version(connect: Connect) -> None:
    peer = connect()
    await peer.synced()
    assert peer.notices == [
        Notice(action=VERSION, version=1, want_objs=peer.notices[0].want_objs),
        Notice(action=SENDALL_END),
    ]
    assert "edgeproto.CloudletInfo" in peer.notices[0].want_objs


def _has_changed(peer: Peer) -> bool:
    return not peer.names("App") and "large" in peer.names("Flavor")


async def test_tells_everything_then_what_changes(edge: Edge, connect: Connect) -> None:
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateApp", stubs.app())
    await edge("CreateCloudlet", stubs.cloudlet())
    first, second = connect(), connect()  # on one connection
    for peer in (first, second):
        await peer.synced()
        kinds = [notice.any.type_url.rpartition(".")[2] for notice in peer.notices]
        assert kinds[:5] == ["", "Flavor", "Cloudlet", "App", ""]  # news may have followed
    [shown] = await edge("ShowApp", stubs.app())
    assert first.there["App"] == {"shop": shown}
    await edge("CreateFlavor", stubs.flavor("large"))
    await edge("UpdateCloudlet", stubs.cloudlet(access_uri="u", fields=["4"]))
    await edge("DeleteApp", stubs.app())
    for peer in (first, second):
        await peer.until(partial(_has_changed, peer))
        assert peer.there["Cloudlet"]["west"].access_uri == "u"
    last = first.notices[-1]
    assert last.action == DELETE
    await first.close()
    await edge("CreateFlavor", stubs.flavor("huge"))
    await second.until(lambda: "huge" in second.names("Flavor"))
    again = connect()
    await again.synced()
    assert again.names("Flavor") == {"small", "large", "huge"}
    assert again.names("App") == set()


async def test_tells_a_cloudlets_own_what_is_its_own(edge: Edge, connect: Connect) -> None:
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateApp", stubs.app())
    for name in ("west", "east"):
        await edge("CreateCloudlet", stubs.cloudlet(name))
    crm = connect(filtered=True)
    await crm.synced()
    assert crm.names("Flavor") == {"small"}
    assert not crm.names("Cloudlet") | crm.names("App")
    crm.tell(info())
    await crm.until(lambda: crm.names("Cloudlet"))
    await edge("UpdateCloudlet", stubs.cloudlet("east", access_uri="e", fields=["4"]))
    await edge("UpdateCloudlet", stubs.cloudlet("west", access_uri="w", fields=["4"]))
    await crm.until(lambda: crm.there["Cloudlet"]["west"].access_uri == "w")
    assert crm.names("Cloudlet") == {"west"}
    assert not crm.names("App")
    crm.tell(info("none"))
    await crm.until(lambda: crm.notices[-1].action == DELETE)
    crm.tell(info("none"), DELETE)
    await edge("CreateCloudlet", stubs.cloudlet("none"))
    await edge("DeleteCloudlet", stubs.cloudlet("west"))
    await crm.until(lambda: not crm.names("Cloudlet"))


async def test_says_again_that_all_has_been_told_to_who_speaks(
    edge: Edge, connect: Connect
) -> None:
    """Upon the second time that a peer says so, and if nobody else has its cloudlet by then."""
    await edge("CreateCloudlet", stubs.cloudlet())
    older = connect(filtered=True)
    for _ in range(2):
        older.say(Notice(action=SENDALL_END))  # asks before it speaks for anything
    older.tell(info())
    await older.until(lambda: older.names("Cloudlet"))
    assert [notice.action for notice in older.notices].count(SENDALL_END) == 1
    older.say(Notice(action=SENDALL_END))
    await older.until(lambda: older.notices[-1].action == SENDALL_END)
    told = [notice.any.type_url.rpartition(".")[2] for notice in older.notices]
    assert told == ["", "", "Cloudlet", ""]
    newer = connect(filtered=True)
    newer.tell(info())
    newer.say(Notice(action=SENDALL_END))
    await newer.until(lambda: newer.names("Cloudlet"))
    older.say(Notice(action=SENDALL_END))
    older.tell(info("elsewhere"))
    await older.until(lambda: older.notices[-1].action == DELETE)
    assert [notice.action for notice in older.notices].count(SENDALL_END) == 2
    assert [notice.action for notice in newer.notices].count(SENDALL_END) == 1


async def test_a_cloudlet_is_ready_as_long_as_its_stream(
    edge: Edge, caller: Caller, connect: Connect
) -> None:
    crm = connect(filtered=True)
    crm.tell(info(os_max_ram=500, notify_id=77, controller="a lie"))
    key = NodeKey(name="crm", node_type=NODE_CRM, cloudlet_key=stubs.cloudlet().key)
    crm.tell(Node(key=key))
    ready = await stated(edge, CLOUDLET_STATE_READY)
    assert ready.os_max_ram == 500
    assert ready.notify_id == 1
    assert ready.controller.endswith(f"@{caller.address}")
    [node] = await until(lambda: edge("ShowNode", Node()), bool)
    assert (node.key, node.notify_id) == (key, 1)
    newer = connect(filtered=True)
    newer.tell(info(os_max_ram=600))
    await until(
        lambda: edge("ShowCloudletInfo", CloudletInfo()), lambda found: found[0].notify_id == 2
    )
    crm.tell(info(os_max_ram=700))  # it is what a broken connection left behind
    crm.tell(Node(key=NodeKey(name="late")))
    await until(lambda: edge("ShowNode", Node()), lambda found: len(found) == 2)
    await crm.lose()
    await until(lambda: edge("ShowNode", Node()), lambda found: not found)
    assert (await stated(edge, CLOUDLET_STATE_READY)).os_max_ram == 600
    await newer.lose()
    offline = await stated(edge, CLOUDLET_STATE_OFFLINE)
    assert (offline.os_max_ram, offline.notify_id) == (600, 2)


async def test_what_is_measured_is_shown_as_long_as_its_stream(
    edge: Edge, http: AsyncClient, connect: Connect
) -> None:
    async def exported() -> list[str]:
        text = (await http.get("/metrics")).text
        return [line for line in text.splitlines() if line.startswith("edge_")]

    peer = connect()
    metric = Metric(name="pod-load", tags=[MetricTag(name="app.name", val='a "b"')])
    metric.vals.extend([MetricVal(name="cpu", dval=0.5), MetricVal(name="pods", ival=2)])
    peer.tell(metric)
    metric.vals[1].ival = 3
    peer.tell(metric)
    peer.tell(CloudletMetrics(foo=7))
    peer.tell(AppInstMetrics(something=8))
    found = await until(exported, lambda lines: lines and lines[-1].endswith(" 3.0"))
    assert found[0] == 'edge_pod_load_cpu{app_name="a \\"b\\""} 0.5'
    shown = await until(lambda: edge("ShowAppInstMetrics", AppInstMetrics()), bool)
    assert shown == [AppInstMetrics(something=8)]
    assert await edge("ShowCloudletMetrics", CloudletMetrics(foo=6)) == []
    assert await edge("ShowCloudletMetrics", CloudletMetrics()) == [CloudletMetrics(foo=7)]
    await peer.lose()
    await until(exported, lambda lines: not lines)
    assert await edge("ShowCloudletMetrics", CloudletMetrics()) == []


async def _owner(api: Api) -> Any:
    """Who speaks for the cloudlet at this process."""
    return api._notifying.streams.owner(keys.of(info()))


async def test_what_one_process_takes_the_others_tell(
    edge: Edge, api: Api, settings: Settings, connect: Connect
) -> None:
    other = Api(settings, await client(NOBODY, "default"), build.Build())
    address, _ = await other.start()
    async with grpc.aio.insecure_channel(other.notify_address, options=OWN) as channel:
        crm = connect(filtered=True)
        crm.tell(info())
        await stated(edge, CLOUDLET_STATE_READY)
        moved = connect(filtered=True, channel=channel)
        moved.tell(info())
        await moved.until(
            lambda: moved.notices[-1:] and moved.notices[-1].action == DELETE
        )  # there is no such cloudlet
        await edge("CreateCloudlet", stubs.cloudlet())
        await moved.until(lambda: moved.names("Cloudlet"))
        await until(partial(_owner, api), lambda owner: owner is None)
        crm.tell(ClusterInstInfo(key=stubs.clusterinst_key(), state=READY))  # it is not listened to
        crm.tell(Node(key=NodeKey(name="old")))
        await until(lambda: edge("ShowNodeLocal", Node()), bool)
        assert await edge("ShowClusterInstInfo", ClusterInstInfo()) == []
        await crm.lose()
        info_ = await stated(edge, CLOUDLET_STATE_READY)
        assert info_.controller.endswith(f"@{address}")
        await other.stop()
    await stated(edge, CLOUDLET_STATE_OFFLINE)


async def test_who_is_left_behind_is_not_believed(
    edge: Edge,
    settings: Settings,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even before the process where its stream is has seen that it speaks at another."""
    monkeypatch.setattr(lookout, "TICK_SECONDS", 2 * SECONDS)
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateCloudlet", stubs.cloudlet())
    await edge("InjectCloudletInfo", stubs.info())
    creating = asyncio.create_task(edge("CreateClusterInst", stubs.clusterinst()))
    await until(lambda: edge("ShowClusterInst", ClusterInst()), bool)
    other = Api(settings, await client(NOBODY, "default"), build.Build())
    address, _ = await other.start()
    async with grpc.aio.insecure_channel(other.notify_address, options=OWN) as channel:
        crm, moved = connect(filtered=True), connect(filtered=True, channel=channel)
        for peer in (crm, moved):
            peer.tell(stubs.info())
            await peer.until(partial(peer.names, "ClusterInst"))
        late = ClusterInstInfo(key=stubs.clusterinst_key(), state=CREATE_ERROR, errors=["late"])
        for message in (late, stubs.info(os_max_ram=700), late, Node(key=NodeKey(name="old"))):
            crm.tell(message)
        await until(lambda: edge("ShowNodeLocal", Node()), bool)
        [cluster] = await edge("ShowClusterInst", ClusterInst())
        assert cluster.state == CREATE_REQUESTED
        assert await edge("ShowClusterInstInfo", ClusterInstInfo()) == []
        [found] = await edge("ShowCloudletInfo", CloudletInfo())
        assert found.os_max_ram == stubs.info().os_max_ram
        assert found.controller.endswith(f"@{address}")
        moved.tell(ClusterInstInfo(key=late.key, state=READY))
        await until(
            lambda: edge("ShowClusterInst", ClusterInst()), lambda all_: all_[0].state == READY
        )
        creating.cancel()
        await other.stop()


async def test_pings_do_not_end_a_stream(
    api: Api, caller: Caller, edge: Edge, connect: Connect
) -> None:
    eager = [*OWN, ("grpc.keepalive_time_ms", 100), ("grpc.http2.max_pings_without_data", 0)]
    async with grpc.aio.insecure_channel(api.notify_address, options=eager) as channel:
        peer = connect(channel=channel)
        await peer.synced()
        done, _ = await asyncio.wait([asyncio.ensure_future(peer.call.code())], timeout=2)
        assert not done
        await edge("CreateFlavor", stubs.flavor())
        await peer.until(lambda: peer.names("Flavor"))
