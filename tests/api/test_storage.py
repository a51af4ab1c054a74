"""Ceph, looked after through the API: what is accepted, foreseen and refused."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from domain.operation import Stage
from domain.storage_look import Look
from domain.storage_plan import StoragePlan
from protos.gen.ops import operations_pb2 as ops
from protos.gen.ops import storage_pb2 as pb
from protos.gen.ops.storage_pb2_grpc import StorageStub
from settings import Settings, Temporal
from sim.ceph_memory import MemoryCeph
from store import schema
from store.engine import Database
from store.observations import Observations
from store.rows import OperationRow, now
from systems import Ceph
from tests.api.caller import NOBODY, Caller, answered, refused, under

EVERY = timedelta(hours=1)


@pytest.fixture
async def database_url(tmp_path: Path) -> str:
    """One database will do: nothing here is a question of it."""
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture
def observations(database: Database) -> Observations:
    return Observations(database)


@pytest.fixture
def storage(caller: Caller) -> StorageStub:
    return StorageStub(caller.channel)


async def see(observations: Observations, ceph: MemoryCeph, ago: timedelta = timedelta()) -> None:
    await observations.claim("ceph", EVERY)
    seen = ceph.seen().model_copy(update={"at": datetime.now(UTC) - ago})
    await observations.keep("ceph", Look(observation=seen))


def out(*osds: int) -> pb.TakeOsdsRequest:
    return pb.TakeOsdsRequest(osds=osds)


async def test_osds_are_shown_and_taken_out_once(
    observations: Observations, storage: StorageStub, caller: Caller
) -> None:
    await see(observations, MemoryCeph(outside={5}))
    shown = (await storage.ListOsds(pb.ListOsdsRequest(), timeout=20)).osds
    assert [(it.id, it.host, it.inside) for it in shown][-2:] == [(4, "h2", True), (5, "h2", False)]
    key = under()
    reply, beside = await answered(storage.TakeOsdsOut(out(0, 5), timeout=20, metadata=key))
    assert reply.operation == f"operations/{beside['windlass-operation']}"
    again = await storage.TakeOsdsOut(out(0, 5), timeout=20, metadata=key)
    assert again == reply
    told = await caller.operations.Get(ops.GetOperationRequest(name=reply.operation), timeout=20)
    assert (told.kind, told.subject) == ("take-osds-out", "ceph/ceph")
    assert [f"{step.verb} {step.subject}" for step in told.steps] == [
        "storage.check_marking ceph",
        "storage.mark_osd osd.0",
        "storage.wait_settled osd.0",
    ]
    busy = await refused(storage.TakeOsdsIn(out(5), timeout=20))
    assert (busy.code, busy.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STORAGE_BUSY")
    assert reply.operation.endswith(busy.facts["operation"])
    assert not (await storage.TakeOsdsOut(out(5), timeout=20)).operation


async def test_a_plan_says_the_steps_and_refuses_what_would_be_refused(
    observations: Observations, caller: Caller
) -> None:
    await see(observations, MemoryCeph())

    def planned(method: str, request: pb.TakeOsdsRequest) -> ops.PlanRequest:
        return ops.PlanRequest(
            method=f"windlass.v1.Storage/{method}", request=request.SerializeToString()
        )

    plan = await caller.operations.Plan(planned("TakeOsdsOut", out(0, 2)), timeout=20)
    assert (plan.kind, len(plan.steps), len(plan.machines)) == ("take-osds-out", 5, 0)
    assert not (await caller.operations.Plan(planned("TakeOsdsIn", out(0)), timeout=20)).kind
    unsafe = await refused(caller.operations.Plan(planned("TakeOsdsOut", out(0, 1)), timeout=20))
    assert unsafe.reason == "STORAGE_NOT_SAFE"
    assert "and 2 would be left" in unsafe.message
    asks = await refused(caller.operations.Plan(planned("ListOsds", out()), timeout=20))
    assert asks.reason == "NOT_A_CHANGE"
    listed = await caller.operations.List(ops.ListOperationsRequest(), timeout=20)
    assert not listed.operations


async def test_what_cannot_be_meant_is_refused(
    observations: Observations, storage: StorageStub
) -> None:
    unseen = await refused(storage.TakeOsdsOut(out(0), timeout=20))
    assert (unseen.reason, unseen.retry) == ("STORAGE_UNSEEN", True)
    await see(observations, MemoryCeph(), ago=4 * EVERY)
    stale = await refused(storage.TakeOsdsOut(out(0), timeout=20))
    assert "no news" in stale.message
    await see(observations, MemoryCeph())
    assert (await refused(storage.TakeOsdsOut(out(), timeout=20))).fields == ["osds"]
    unknown = await refused(storage.TakeOsdsOut(out(77), timeout=20))
    assert (unknown.code, unknown.reason) == (grpc.StatusCode.NOT_FOUND, "OSD_NOT_FOUND")


async def made(storage: StorageStub, database: Database, name: str) -> str:
    """The uid of a pool that was asked for, whose operation has ended."""
    asked = await storage.CreatePool(pb.CreatePoolRequest(name=name), timeout=20)
    operation = asked.operation.removeprefix("operations/")
    async with database.session(writes=True) as session:
        row = await session.get_one(OperationRow, operation)
        row.stage, row.ended = Stage.SUCCEEDED, now()
        share = StoragePlan.model_validate_json(row.plan).share
    assert share is not None
    return share.pool.owner


async def test_pools_are_made_within_bounds_and_deleted_by_their_name_typed_twice(
    observations: Observations, storage: StorageStub, database: Database
) -> None:
    await see(observations, MemoryCeph())
    uid = await made(storage, database, "own")
    numbers = ["", "first", "own", "other"]
    pools = {"own": uid, "other": "c0ffee00-1"}
    await see(observations, MemoryCeph(pools=pools, numbers=numbers))
    listed = (await storage.ListPools(pb.ListPoolsRequest(), timeout=20)).pools
    assert [(it.name, it.id, it.owner, it.identity) for it in listed] == [
        ("first", 1, "", ""),
        ("other", 3, "", ""),
        ("own", 2, uid, f"client.wl-{uid[:8]}-csi"),
    ]
    there = await refused(storage.CreatePool(pb.CreatePoolRequest(name="own"), timeout=20))
    assert (there.code, there.reason) == (grpc.StatusCode.ALREADY_EXISTS, "POOL_EXISTS")
    for field, wrong in (("copies", 1), ("groups", 5000), ("most_bytes", -1), ("name", 7)):
        more = {"name": "-"} if field == "name" else {"name": "new", field: wrong}
        refusal = await refused(storage.CreatePool(pb.CreatePoolRequest(**more), timeout=20))
        assert refusal.fields == [field]
    assert (await storage.CreatePool(pb.CreatePoolRequest(name="new"), timeout=20)).operation
    unsaid = await refused(storage.DeletePool(pb.DeletePoolRequest(name="own"), timeout=20))
    assert unsaid.reason == "DATA_AT_STAKE"
    for name, why in (("first", "does not carry our mark"), ("other", "another Windlass")):
        theirs = pb.DeletePoolRequest(name=name, confirmed=name)
        refusal = await refused(storage.DeletePool(theirs, timeout=20))
        assert refusal.reason == "CEPH_FOREIGN"
        assert why in refusal.message
    nowhere = pb.DeletePoolRequest(name="x", confirmed="x")
    assert (
        await refused(storage.DeletePool(nowhere, timeout=20))
    ).reason == "STORAGE_POOL_NOT_FOUND"
    said = pb.DeletePoolRequest(name="own", confirmed="own")
    assert (await storage.DeletePool(said, timeout=20)).operation


async def test_an_upgrade_is_accepted_planned_and_refused(
    observations: Observations, storage: StorageStub, caller: Caller
) -> None:
    await see(observations, MemoryCeph())
    request = pb.UpgradeStorageRequest(version="19.2.3")
    asked = ops.PlanRequest(
        method="windlass.v1.Storage/Upgrade", request=request.SerializeToString()
    )
    plan = await caller.operations.Plan(asked, timeout=20)
    assert (plan.kind, [step.verb for step in plan.steps][-1]) == (
        "upgrade-storage",
        "storage.wait_sound",
    )
    same = pb.UpgradeStorageRequest(version="18.2.7")
    assert not (await storage.Upgrade(same, timeout=20)).operation
    unknown = await refused(storage.Upgrade(pb.UpgradeStorageRequest(version="x"), timeout=20))
    assert (unknown.code, unknown.reason) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "CEPH_VERSION_UNKNOWN",
    )
    back = await refused(storage.Upgrade(pb.UpgradeStorageRequest(version="17.2.8"), timeout=20))
    assert "Ceph does not go back" in back.message
    assert (await storage.Upgrade(request, timeout=20)).operation


class TestWithoutCeph:
    @pytest.fixture
    def settings(self, database_url: str, tmp_path: Path) -> Settings:
        return Settings(
            database=database_url,
            key_file=tmp_path / "seal.key",
            grpc_address="127.0.0.1:0",
            http_address="127.0.0.1:0",
            temporal=Temporal(address=NOBODY),
            ceph=Ceph(urls=()),
        )

    async def test_there_is_nothing_to_change(self, storage: StorageStub) -> None:
        for call in (
            storage.ListOsds(pb.ListOsdsRequest(), timeout=20),
            storage.TakeOsdsOut(out(0), timeout=20),
            storage.CreatePool(pb.CreatePoolRequest(name="own"), timeout=20),
        ):
            assert (await refused(call)).reason == "STORAGE_NOT_CONFIGURED"
