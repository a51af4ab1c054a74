"""What runs on cloudlets, as notify tells of it and hears of it. The peers are made of the contract
alone; nobody carries anything out, so what is asked for stays as it is."""

import asyncio

import pytest

from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo, AppInstRuntime
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import (
    CREATE_ERROR,
    CREATE_REQUESTED,
    CREATING,
    DELETE_ERROR,
    DELETE_REQUESTED,
    DELETING,
    IGNORE_CRM,
    READY,
    TRACKED_STATE_UNKNOWN,
)
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, Notice
from settings import Edge as Terms
from tests.api.caller import Caller
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.support.load import limit

SECONDS = 40
ALL_SAID = Notice(action=SENDALL_END)


@pytest.fixture
def terms() -> Terms:
    return Terms()


async def described(edge: Edge, *cloudlets: str) -> None:
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateApp", stubs.app())
    for name in cloudlets:
        await edge("CreateCloudlet", stubs.cloudlet(name))


async def placed(edge: Edge, cloudlet: str, *clusters: str) -> None:
    """Clusters that nobody is waited for, with an app in each."""
    for name in clusters:
        key = {"place": cloudlet}
        await edge("CreateClusterInst", stubs.clusterinst(name, key=key, crm_override=IGNORE_CRM))
        instance = stubs.appinst(cluster=name, key=key, crm_override=IGNORE_CRM)
        await edge("CreateAppInst", instance)


async def cluster_is(edge: Edge, state: int) -> ClusterInst:
    """The only cluster, once it is in a state."""
    async with limit(SECONDS):
        while True:
            [found] = await edge("ShowClusterInst", ClusterInst())
            if found.state == state:
                return found  # type: ignore[no-any-return]
            await asyncio.sleep(0.02)


async def test_only_what_is_on_its_cloudlet(edge: Edge, caller: Caller) -> None:
    await described(edge, "west", "east")
    await edge("InjectCloudletInfo", stubs.info("west"))
    await edge("InjectCloudletInfo", stubs.info("east"))
    await placed(edge, "west", "a", "b")
    await placed(edge, "east", "c")
    crm, whole = Peer(caller.channel, filtered=True), Peer(caller.channel)
    for peer in (crm, whole):
        await peer.synced()
    kinds = ("Cloudlet", "ClusterInst", "App", "AppInst")
    assert [crm.names(kind) for kind in ("Flavor", *kinds)] == [
        {"small"},
        set(),
        set(),
        set(),
        set(),
    ]
    assert whole.names("ClusterInst") == {"a", "b", "c"}
    crm.tell(stubs.info("west"))
    await crm.until(lambda: len(crm.names("AppInst")) == 2)
    assert [crm.names(kind) for kind in kinds] == [
        {"west"},
        {"a", "b"},
        {"shop"},
        {"shop@a", "shop@b"},
    ]
    told = [notice.any.type_url.rpartition(".")[2] for notice in crm.notices]
    assert told.index("App") < told.index("AppInst")
    [instance] = list(await edge("ShowAppInst", stubs.appinst(cluster="a")))
    assert crm.there["AppInst"]["shop@a"] == instance
    await edge(
        "DeleteAppInst", stubs.appinst(cluster="a", key={"place": "west"}, crm_override=IGNORE_CRM)
    )
    await placed(edge, "east", "d")
    await placed(edge, "west", "e")
    await crm.until(lambda: "shop@e" in crm.names("AppInst"))
    assert crm.names("AppInst") == {"shop@b", "shop@e"}
    assert crm.names("ClusterInst") == {"a", "b", "e"}
    await whole.until(lambda: len(whole.names("AppInst")) == 4)
    for peer in (crm, whole):
        await peer.lose()


async def test_what_is_said_of_it_is_what_stands(edge: Edge, caller: Caller) -> None:
    await described(edge, "west")
    crm = Peer(caller.channel, filtered=True)
    crm.tell(stubs.info())
    await crm.until(lambda: "west" in crm.names("Cloudlet"))
    creating = asyncio.create_task(edge("CreateClusterInst", stubs.clusterinst()))
    await crm.until(lambda: crm.names("ClusterInst"))
    assert crm.there["ClusterInst"]["blue"].state == CREATE_REQUESTED
    key = stubs.clusterinst_key()
    crm.tell(ClusterInstInfo(key=key, state=TRACKED_STATE_UNKNOWN))
    crm.tell(ClusterInstInfo(key=key, state=CREATING, notify_id=9))
    await cluster_is(edge, CREATING)
    older, crm = crm, Peer(caller.channel, filtered=True)
    crm.tell(stubs.info())
    await crm.until(lambda: crm.names("ClusterInst"))
    older.tell(ClusterInstInfo(key=key, state=CREATE_ERROR, errors=["late"]))
    older.tell(stubs.info("elsewhere"))
    await older.until(lambda: older.notices[-1].action == DELETE)
    crm.tell(ClusterInstInfo(key=key, state=READY))
    await cluster_is(edge, READY)
    [info] = await edge("ShowClusterInstInfo", ClusterInstInfo())
    assert (info.state, info.notify_id) == (READY, 2)
    creating.cancel()
    for peer in (crm, older):
        await peer.lose()
    assert (await cluster_is(edge, READY)).errors == []


@pytest.mark.parametrize("first", ["of its cloudlet", "nothing"])
async def test_who_was_started_anew_is_asked_again_to_delete(
    first: str, edge: Edge, caller: Caller
) -> None:
    """Also if it says that this was all before it can say anything of its cloudlet."""
    await described(edge, "west")
    await edge("InjectCloudletInfo", stubs.info())
    await placed(edge, "west", "a")
    crm = Peer(caller.channel, filtered=True)
    crm.tell(stubs.info())
    await crm.until(lambda: crm.names("AppInst"))
    ready = AppInstInfo(key=crm.there["AppInst"]["shop@a"].key, state=READY)
    ready.runtime_info.CopyFrom(AppInstRuntime(container_ids=["c1"]))
    crm.tell(ready)
    await crm.until(lambda: crm.there["AppInst"]["shop@a"].runtime_info.container_ids)
    deleting = asyncio.create_task(edge("DeleteAppInst", crm.there["AppInst"]["shop@a"]))
    await crm.until(lambda: crm.there["AppInst"]["shop@a"].state == DELETE_REQUESTED)
    crm.tell(AppInstInfo(key=ready.key, state=DELETING))
    await crm.until(lambda: crm.there["AppInst"]["shop@a"].state == DELETING)
    await crm.lose()
    again = Peer(caller.channel, filtered=True)
    if first == "nothing":
        again.say(ALL_SAID)
    again.tell(stubs.info())
    if first != "nothing":
        again.say(ALL_SAID)
    await again.until(lambda: again.names("AppInst"))
    assert again.there["AppInst"]["shop@a"].state == DELETE_REQUESTED
    again.tell(AppInstInfo(key=ready.key), DELETE)
    await again.until(lambda: not again.names("AppInst"))
    assert await edge("ShowAppInst", AppInst()) == []
    assert await edge("ShowAppInstInfo", AppInstInfo()) == []
    deleting.cancel()
    await again.lose()


@pytest.mark.parametrize("last", [DELETE_REQUESTED, DELETING])
async def test_what_could_not_be_deleted_meanwhile_is_not_asked_for_again(
    last: int, edge: Edge, caller: Caller
) -> None:
    """Whoever was away when it failed says so only after it has said of which cloudlet it is."""
    await described(edge, "west")
    await edge("InjectCloudletInfo", stubs.info())
    await placed(edge, "west", "a", "b")
    crm = Peer(caller.channel, filtered=True)
    crm.tell(stubs.info())
    await crm.until(lambda: "shop@a" in crm.names("AppInst"))
    instance = crm.there["AppInst"]["shop@a"]
    deleting = asyncio.create_task(edge("DeleteAppInst", instance))
    await crm.until(lambda: crm.there["AppInst"]["shop@a"].state == DELETE_REQUESTED)
    if last == DELETING:
        crm.tell(AppInstInfo(key=instance.key, state=DELETING))
        await crm.until(lambda: crm.there["AppInst"]["shop@a"].state == DELETING)
    await crm.lose()
    again = Peer(caller.channel, filtered=True)
    again.tell(stubs.info())
    await again.until(lambda: "shop@b" in again.names("AppInst"))
    again.tell(AppInstInfo(key=instance.key, state=DELETE_ERROR, errors=["it broke"]))
    again.say(ALL_SAID)
    await again.until(lambda: "shop@a" in again.names("AppInst"))
    told = [AppInst.FromString(each.any.value) for each in again.notices if _is_app(each)]
    assert [each.state for each in told if each.key == instance.key] == [DELETE_ERROR]
    deleting.cancel()
    await again.lose()


def _is_app(notice: Notice) -> bool:
    return notice.any.type_url.endswith(".AppInst")
