"""What is shown of apps' instances is what they are now, whatever was shown of them before."""

from datetime import UTC, datetime

from google.protobuf.json_format import Parse
from httpx2 import AsyncClient

from api.edge.remembered import LARGEST, Remembered
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
from tests.support.load import limit

SECONDS = 20
CLUSTER = ClusterInstKey(
    cluster="a", cloudlet=CloudletKey(operator="tele", name="west"), developer="acme"
)


def noted(app: str, errors: str = "[]") -> Noted:
    key = AppInstKey(developer="acme", app=app, version="1", cluster=CLUSTER)
    facts = Instance(key=key, uri=f"{app}.west").model_dump_json()
    created = datetime(2026, 1, 2, tzinfo=UTC)
    return Noted(app, facts, Phase.READY, errors, "[]", created)


def errors(remembered: Remembered, row: Noted) -> list[str]:
    return list(AppInst.FromString(remembered.written(row)).errors)


def test_what_has_not_changed_is_not_written_again() -> None:
    remembered = Remembered()
    assert remembered.written(noted("one")) is remembered.written(noted("one"))


def test_nothing_is_shown_of_what_it_was_before() -> None:
    remembered = Remembered()
    row, late = noted("one"), noted("one", errors='["late"]')
    assert [errors(remembered, each) for each in (row, row, late, late, row)] == [
        *([], []),
        *(["late"], ["late"]),
        [],
    ]


def test_a_little_more_than_fits_leaves_most_remembered_and_all_of_it_true() -> None:
    rows = [noted(f"app-{number}") for number in range(100)]
    whole = Remembered()
    truth = [whole.written(row) for row in rows]
    most = whole.bytes * 9 // 10
    remembered = Remembered(most_bytes=most)
    for _ in range(5):
        last = [remembered.written(row) for row in rows]
        assert last == truth
        assert remembered.bytes <= most
    again = [remembered.written(row) for row in rows]
    assert sum(old is new for old, new in zip(last, again, strict=True)) > 50


def test_what_is_very_large_makes_nothing_forgotten() -> None:
    remembered = Remembered(most_bytes=LARGEST)
    small = remembered.written(noted("small"))
    said = "x" * LARGEST
    assert errors(remembered, noted("huge", errors=f'["{said}"]')) == [said]
    assert remembered.written(noted("small")) is small


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

    async with limit(SECONDS):
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
