"""What is shown of apps' instances is what they are now, whatever was shown of them before."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import cycle, islice

from google.protobuf.json_format import Parse
from httpx2 import AsyncClient

from api.edge.remembered import Remembered
from domain.appinst import AppInst as Instance
from domain.appinst import AppInstKey
from domain.cloudlet import CloudletKey
from domain.clusterinst import ClusterInstKey
from domain.tracking import Phase
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo, AppInstRuntime
from protos.gen.edge.common_pb2 import IGNORE_CRM, READY
from store.appinsts import Noted
from tests.api.caller import Caller
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.api.web import framed
from tests.store.desk import until

SECONDS = 20
CLUSTER = ClusterInstKey(
    cluster="a", cloudlet=CloudletKey(operator="tele", name="west"), developer="acme"
)


def noted(app: str, errors: str = "[]") -> Noted:
    key = AppInstKey(developer="acme", app=app, version="1", cluster=CLUSTER)
    facts = Instance(key=key, uri=f"{app}.west").model_dump_json()
    created = datetime(2026, 1, 2, tzinfo=UTC)
    return Noted(app, facts, Phase.READY, errors, "[]", created)


def states(remembered: Remembered, rows: Iterable[Noted]) -> list[tuple[str, int, list[str]]]:
    shown = [AppInst.FromString(remembered.written(row)) for row in rows]
    return [(each.key.app_key.name, each.state, list(each.errors)) for each in shown]


def test_each_is_written_as_it_is_also_when_there_are_more_than_are_remembered() -> None:
    remembered = Remembered(most=2)
    rows = [noted("one"), noted("two"), noted("three")]
    told = states(remembered, islice(cycle(rows), 9))
    assert told == 3 * [("one", READY, []), ("two", READY, []), ("three", READY, [])]


def test_nothing_is_shown_of_what_it_was_before() -> None:
    remembered = Remembered()
    row, late = noted("one"), noted("one", errors='["late"]')
    told = states(remembered, [row, row, late, late, row])
    assert [errors for _, _, errors in told] == [[], [], ["late"], ["late"], []]


async def test_what_a_resource_manager_says_is_shown_at_once_and_in_every_way(
    edge: Edge, caller: Caller, http: AsyncClient
) -> None:
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateApp", stubs.app())
    await edge("CreateCloudlet", stubs.cloudlet("west"))
    await edge("InjectCloudletInfo", stubs.info("west"))
    await edge("CreateClusterInst", stubs.clusterinst("a", crm_override=IGNORE_CRM))
    await edge("CreateAppInst", stubs.appinst(cluster="a", crm_override=IGNORE_CRM))
    [before] = await edge("ShowAppInst", AppInst())
    crm = Peer(caller.channel, filtered=True)
    crm.tell(stubs.info("west"))
    await crm.until(lambda: crm.names("AppInst"))
    runtime = AppInstRuntime(container_ids=["c1"])
    crm.tell(AppInstInfo(key=before.key, state=READY, runtime_info=runtime))

    async def changed() -> bool:
        return bool(await edge("ShowAppInst", AppInst()) != [before])

    async with asyncio.timeout(SECONDS):
        await until(changed)
    after = await edge("ShowAppInst", AppInst())
    assert list(after[0].runtime_info.container_ids) == ["c1"]
    assert await edge("ShowAppInst", AppInst(state=READY, uri=before.uri)) == after
    assert await edge("ShowAppInst", AppInst(uri="elsewhere")) == []
    reply = await http.post("/show/appinst", json={"key": {"app_key": {"name": "shop"}}})
    assert reply.json()["result"]["runtime_info"] == {"container_ids": ["c1"]}
    asked = {"content-type": "application/connect+json"}
    method = "/edgeproto.AppInstApi/ShowAppInst"
    told = await http.post(method, content=framed(b"{}"), headers=asked)
    length = int.from_bytes(told.content[1:5], "big")
    assert [Parse(told.content[5 : 5 + length], AppInst())] == after
    await crm.lose()
