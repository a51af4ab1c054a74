"""No question walks through a whole table: they are asked all the time, and tables only grow."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from domain.machine import Sighting
from domain.operation import Kind, Stage
from tests.store.desk import Desk, ask

ALLOWED = (
    "SCAN clusters USING INDEX uq_clusters_living_name",  # the list of all that live
    "SCAN operations USING INDEX ix_operations_created_id",  # page by page
    "SCAN secrets",  # any one, to try the key on
    "SCAN idempotency",  # by operation, which is seldom forgotten; and it holds a day's keys only
)


COUNTED = "operations.waiting_on LIKE"
"""What counts the operations that need a person looks at all of them, for a gauge."""


@pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)
async def test_every_question_has_its_index(desk: Desk) -> None:
    asked: dict[str, Any] = {}

    def note(*about: Any) -> None:
        _, _, statement, parameters, _, many = about
        if not statement.startswith(("EXPLAIN", "PRAGMA")):
            asked[statement] = parameters[0] if many else parameters

    engine = desk.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    await _everything(desk)
    event.remove(engine, "before_cursor_execute", note)
    walks = []
    async with desk.database.session(writes=False) as session:
        connection = await session.connection()
        for statement, parameters in asked.items():
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            walks += [(row.detail, statement) for row in plan if row.detail.startswith("SCAN")]
    walks = [walk for walk in walks if COUNTED not in walk[1]]
    assert [walk for walk in walks if not walk[0].startswith(ALLOWED)] == []
    assert len(asked) > 40


async def _everything(desk: Desk) -> None:
    """Ask whatever the stores can be asked while work goes on."""
    operation = (await desk.creating()).id
    (await desk.creating("other"))
    slots = (await desk.clusters.nodes("hello")).slots
    for state in slots:
        await desk.did(operation, "machines.release", state.slot.name)
    await desk.mark(operation, "machines.deploy", slots[0].slot.name, Sighting.BEGAN)
    await desk.create("keyed", asked=ask("a key"))
    operations = desk.operations
    await operations.get(operation)
    await operations.plan(operation)
    await operations.steps(operation)
    await operations.learnt()
    await operations.backlog()
    await operations.unlaunched(0)
    await operations.called_off()
    await operations.silent(0, 0)
    await operations.found_alive(operation)
    last = await operations.page(size=1, stages=[Stage.RUNNING], kind=Kind.CREATE_CLUSTER)
    await operations.page(size=1, before=last[0].id)
    await operations.unheeded()
    await desk.steering.look(operation)
    await desk.steering.arrive(operation, "pool w", timedelta(hours=1))
    await desk.steering.approve(operation, "", "ann")
    await desk.steering.pause(operation, "ann")
    await desk.steering.resume(operation, "ann")
    await desk.steering.cancel(operation, "ann")
    await desk.journal.since(operation, 0)
    await desk.journal.ended(operation)
    await desk.vault.verify()
    await desk.clusters.get("hello")
    await desk.clusters.all()
    await desk.running("done")
    await operations.forget((await desk.deleted("done")).id)
