"""What is forgotten of operations at the edge. Of those of clusters `test_operations` tells."""

from datetime import timedelta

from domain.operation import Stage
from domain.override import Override
from store.forgetting import Forgetting
from store.rows import JournalRow, OperationRow, now
from tests.store.desk import Desk
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
