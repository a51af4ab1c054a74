"""Operations that wait to be approved, gate by gate."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.worker import Worker

from activities.progress import Progress
from activities.steering import Steering
from activities.verbs import verbs
from domain.cluster import Phase
from domain.operation import Operation, OperationId, Stage
from store.rows import now
from tests.store.desk import until
from tests.workflows.conftest import Opening
from tests.workflows.gated import POOLS, Gated
from tests.workflows.test_upgrades import AFTER, BEFORE
from tests.workflows.yard import Yard
from workflows import runner

SHORT, LONG = timedelta(seconds=0.3), timedelta(hours=1)


@asynccontextmanager
async def gated(place: Yard, approval: timedelta) -> AsyncIterator[Operation]:
    """An operation on its way to the first gate."""
    asked = await place.ask()
    books = [
        Progress(place.operations, place.clusters, place.journal),
        Steering(place.steering, approval=approval),
    ]
    queue = f"{place.prefix}gated"
    async with Worker(
        place.client,
        task_queue=queue,
        workflows=[Gated],
        activities=[verb for book in books for verb in verbs(book)],
        workflow_runner=runner(),
    ):
        await place.client.start_workflow(
            Gated.run, asked.id, id=f"op-{asked.id}", task_queue=queue
        )
        yield asked
        await place.finish(asked.id)


async def arrived(place: Yard, operation: OperationId, gate: str) -> None:
    async def there() -> bool:
        return (await place.operations.get(operation)).gate == gate

    await until(there)


async def test_each_gate_opens_once_it_is_approved(opened: Opening) -> None:
    async with opened() as place, gated(place, LONG) as asked:
        for pool in POOLS:
            await arrived(place, asked.id, f"pool {pool}")
            await place.steering.approve(asked.id, f"pool {pool}", "ann")
            await place.nudge(asked.id)
        await place.finish(asked.id)
        operation = await place.operations.get(asked.id)
        assert (operation.stage, operation.gate) == (Stage.SUCCEEDED, "")
        said = [line.note for line in await place.journal.since(asked.id, 0)]
        assert [line for line in said if "approved by" in line] == [
            f"pool {pool} approved by ann" for pool in POOLS
        ]


async def test_what_nobody_approves_in_time_is_called_off(opened: Opening) -> None:
    async with opened() as place, gated(place, SHORT) as asked:
        await place.finish(asked.id)
        operation = await place.operations.get(asked.id)
        assert operation.stage is Stage.CANCELLED
        assert operation.failure is not None
        assert "the gate before pool a: nobody approved it" in operation.failure.message
        assert (await place.clusters.get("blue")).phase is Phase.ERROR


async def test_what_stands_before_a_gate_can_be_called_off(opened: Opening) -> None:
    async with opened() as place, gated(place, LONG) as asked:
        await arrived(place, asked.id, "pool a")
        await place.cancel(asked.id)
        await place.finish(asked.id)
        operation = await place.operations.get(asked.id)
        assert (operation.stage, operation.gate) == (Stage.CANCELLED, "")
        assert "cancelled by ann" in (await place.clusters.get("blue")).message


async def test_a_delete_takes_over_what_stands_before_a_gate(opened: Opening) -> None:
    async with opened() as place, gated(place, LONG) as asked:
        await arrived(place, asked.id, "pool a")
        assert (await place.delete()).stage is Stage.SUCCEEDED
        assert (await place.operations.get(asked.id)).stage is Stage.SUPERSEDED
        assert await place.blue() is None


async def test_the_time_of_a_gate_stands_still_while_its_operation_is_paused(
    opened: Opening,
) -> None:
    async with opened() as place, gated(place, timedelta(seconds=2)) as asked:
        await arrived(place, asked.id, "pool a")
        await place.pause(asked.id)
        await until(lambda: _is_past(place, asked.id))
        assert (await place.operations.get(asked.id)).gate == "pool a"
        await place.resume(asked.id)
        await place.steering.approve(asked.id, "", "ann")
        await place.nudge(asked.id)
        await arrived(place, asked.id, "pool b")
        await place.cancel(asked.id)


async def _is_past(place: Yard, operation: OperationId) -> bool:
    until = (await place.operations.get(operation)).gate_until
    return until is not None and now() > until + timedelta(seconds=0.2)


async def test_an_upgrade_waits_before_its_pool_until_somebody_approves(opened: Opening) -> None:
    async with opened() as place:
        await place.create(version=BEFORE)
        asked = await place.ask_upgrade(AFTER, approve_each="pool")
        await place.start(asked)
        await arrived(place, asked.id, "pool w")
        [master, worker] = (await place.clusters.nodes("blue")).slots
        assert (master.version, worker.version) == (AFTER, BEFORE)
        await place.steering.approve(asked.id, "", "ann")
        await place.nudge(asked.id)
        await place.finish(asked.id)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


async def test_an_upgrade_that_nobody_approves_is_called_off_and_can_be_gone_on_with(
    opened: Opening,
) -> None:
    async with opened(approval=SHORT) as place:
        await place.create(version=BEFORE)
        asked = await place.ask_upgrade(AFTER, approve_each="pool")
        await place.carry_out(asked)
        operation, cluster = await place.operations.get(asked.id), await place.clusters.get("blue")
        assert (operation.stage, cluster.phase) == (Stage.CANCELLED, Phase.DEGRADED)
        assert "the gate before pool w" in cluster.message
        assert not place.world.cordoned
        await place.carry_out(await place.ask_upgrade(AFTER))
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
