"""What is forgotten of operations at the edge. Of those of clusters `test_operations` tells."""

from datetime import timedelta

import pytest

from domain.errors import Conflict
from domain.operation import Operation, Stage
from domain.override import Override
from domain.share import PoolTerms
from domain.storage_look import Look
from domain.storage_plan import StoragePlan
from sim.ceph_memory import MemoryCeph
from store.forgetting import Forgetting
from store.observations import Observations
from store.rows import ClusterRow, JournalRow, OperationRow, now
from store.storages import Storages
from tests.store.desk import Desk, ask
from tests.workflows.edge import described

KEPT = timedelta(days=90)


async def test_what_became_of_instances_is_forgotten_but_for_the_latest(desk: Desk) -> None:
    site = described(desk.database, desk.tail)
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    stays = await site.resize_cluster(nodes=2, override=Override.CRM)
    runs = await site.create_app()
    ended = {"ended": now() - KEPT - timedelta(days=1), "stage": Stage.SUCCEEDED}
    forgetting = Forgetting(desk.database)

    await desk.change(OperationRow, ended, kind="create-clusterinst")
    await desk.change(OperationRow, ended, id=stays.operation.id)
    await forgetting.operations(KEPT)
    left = {stays.operation.id, runs.operation.id}
    assert {row.id for row in await desk.all(OperationRow)} == left
    assert {row.operation for row in await desk.all(JournalRow)} == left

    await desk.change(OperationRow, ended, id=runs.operation.id)
    await forgetting.operations(KEPT)
    assert {row.id for row in await desk.all(OperationRow)} == left


async def test_b8_clusters_that_are_gone_are_forgotten_once_no_operation_names_them(
    desk: Desk,
) -> None:
    forgetting, ended = Forgetting(desk.database), {"ended": now() - KEPT - timedelta(days=1)}
    for name in ("gone", "lately", "left", "marked", "lives"):
        await desk.running(name)
    uids = {row.name: row.uid for row in await desk.all(ClusterRow)}
    for name in ("gone", "lately", "left", "marked"):
        await desk.deleted(name)
        more = {"left_behind": "[]"} if name == "left" else {}
        await desk.change(OperationRow, ended | more, cluster=uids[name])
        if name != "lately":
            changed = {"changed": now() - KEPT - timedelta(days=1)}
            await desk.change(ClusterRow, changed, uid=uids[name])
    observations = Observations(desk.database)
    await observations.claim("ceph", timedelta(0))
    ceph = MemoryCeph(pools={"kept": uids["marked"]}, numbers=["", "kept"])
    await observations.keep("ceph", Look(observation=ceph.seen()))
    await forgetting.clusters(KEPT)
    assert {row.name for row in await desk.all(ClusterRow)} == uids.keys()
    await forgetting.operations(KEPT)
    await forgetting.clusters(KEPT)
    left = {row.name for row in await desk.all(ClusterRow)}
    assert left == {"lately", "left", "marked", "lives"}


async def test_what_made_a_pool_is_known_for_as_long_as_the_pool_is_there(desk: Desk) -> None:
    storages, forgetting = Storages(desk.database), Forgetting(desk.database)

    async def look(*names: str) -> None:
        await observations.claim("ceph", timedelta(0))
        owned = dict.fromkeys(names, uid)
        ceph = MemoryCeph(pools=owned, numbers=["", "first", *names])
        await observations.keep("ceph", Look(observation=ceph.seen()))

    async def end(operation: Operation, days: int) -> None:
        ended = now() - KEPT - timedelta(days=days)
        told = {"ended": ended, "created": ended, "stage": Stage.SUCCEEDED}
        await desk.change(OperationRow, told, id=operation.id)

    uid, observations = "", Observations(desk.database)
    await look()
    made = await storages.request_pool("ceph", "own", PoolTerms(), ask(method="pool"))
    [row] = await desk.all(OperationRow, id=made.id)
    share = StoragePlan.model_validate_json(row.plan).share
    assert share is not None
    uid = share.pool.owner
    await end(made, days=2)
    await forgetting.operations(KEPT)
    await look("own")
    assert [pool.owner for pool in await storages.pools("ceph")] == ["", uid]
    with pytest.raises(Conflict, match="says whose it is"):
        await desk.operations.forget(made.id)

    dropped = await storages.request_drop("ceph", "own", "own", ask(method="drop"))
    await end(dropped, days=1)
    await forgetting.operations(KEPT)
    assert await desk.all(OperationRow) == []
    await look("own")
    assert [pool.stranger for pool in await storages.pools("ceph")] == ["", uid]
