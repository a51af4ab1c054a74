"""What a workflow does when its time is up, on a server whose clock jumps."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from domain.cluster import Phase
from domain.errors import DomainError, Failed, Failure, Unavailable
from domain.machine import SlotPhase
from domain.operation import OperationId, Stage, StepKey
from store.engine import Database
from store.secrets import Secrets
from tests.metal import until
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble, Yard, yard
from workflows.policies import OPERATION_DEADLINE, UNDO_DEADLINE

STRIDE = timedelta(minutes=5)
MOST_STRIDES = 100


class Away:
    """A region that is hardly there for some slots: two hours until one has a machine, half an hour
    until that is given up; and once more."""

    def __init__(self, slots: str) -> None:
        self._slots = slots
        self._asked: Counter[str] = Counter()

    def __call__(self, key: StepKey) -> DomainError | None:
        if key.undo or not key.subject.startswith(self._slots):
            return None
        if key.verb not in ("machines.allocate", "machines.deploy"):
            return None
        self._asked[str(key)] += 1
        patience = key.verb == "machines.allocate" and self._asked[str(key)] > 230
        return None if patience else Unavailable("the region is away")


@pytest.fixture
def opened(
    time_skipping: WorkflowEnvironment, database: Database, vault: Secrets, queues: str
) -> Opening:
    return partial(yard, time_skipping.client, database, vault, queues)


async def over(place: Yard, operation: OperationId, clock: WorkflowEnvironment) -> timedelta:
    """Let time pass until an operation has ended, and say how much passed. The clock is moved by
    hand: while an activity waits for its next try, the server moves it for nobody's result."""
    began = await clock.get_current_time()
    for _ in range(MOST_STRIDES):
        if (await place.operations.get(operation)).ended:
            return await clock.get_current_time() - began
        with suppress(RPCError):  # it drops a call now and then, and time has passed or has not
            await clock.sleep(STRIDE)
    raise TimeoutError(f"{operation} has not ended")


async def test_a_delete_takes_over_from_an_undo_that_does_not_end(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    def fail(key: StepKey) -> DomainError | None:
        if key.undo:
            return Unavailable("the region is away")
        return Failed("the region is odd") if key.verb == "endpoints.ensure" else None

    async with opened(trouble=Trouble(fail=fail)) as place:
        created = await place.ask()
        await place.start(created)
        await until(lambda: place.trouble.fired > 1)  # the create has failed, and its undo does
        delete = (await place.ask_delete()).operation
        await place.start(delete)
        assert await over(place, delete.id, time_skipping) >= UNDO_DEADLINE
        assert (await place.operations.get(delete.id)).stage is Stage.SUCCEEDED
        assert (await place.operations.get(created.id)).stage is Stage.SUPERSEDED
        assert await place.blue() is None
        assert place.world.leftovers == []


async def test_a_create_that_gets_nowhere_in_time_is_undone(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    async with opened(trouble=Trouble(fail=Away(""))) as place:
        asked = await place.ask(workers=0)
        await place.start(asked)
        assert await over(place, asked.id, time_skipping) >= OPERATION_DEADLINE
        operation = await place.operations.get(asked.id)
        assert operation.stage is Stage.FAILED
        assert operation.failure == Failure(
            kind="Overdue", message="not done within 4:00:00", reason="OVERDUE"
        )
        assert (await place.clusters.get("blue")).phase is Phase.ERROR
        assert place.world.leftovers == []


async def test_a_cluster_that_works_goes_without_a_node_that_does_not_come_in_time(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    async with opened(trouble=Trouble(fail=Away("w-"))) as place:
        asked = await place.ask()
        await place.start(asked)
        assert await over(place, asked.id, time_skipping) >= OPERATION_DEADLINE
        blue = await place.clusters.get("blue")
        [first] = (await place.operations.plan(asked.id)).control_plane
        assert blue.phase is Phase.DEGRADED
        assert "not done within 4:00:00" in blue.message
        assert [metal.node for metal in place.world.machines if metal.owner] == [first.name]


async def test_a_region_that_is_back_soon_costs_no_node_its_machine(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    tries: Counter[str] = Counter()

    def fail(key: StepKey) -> DomainError | None:
        if not key.verb.startswith("machines.power"):
            return None
        tries[str(key)] += 1
        busy = Unavailable("a power action is running", reason="MAAS_BUSY")
        return busy if tries[str(key)] < 10 else None

    async with opened(trouble=Trouble(fail=fail)) as place:
        await place.create(1, 1)
        [worker] = [each for each in place.world.machines if each.node.startswith("w-")]
        worker.powered = False
        await place.saw(worker.node, SlotPhase.JOINED)
        asked = await place.ask_repair()
        assert asked is not None
        await place.start(asked)
        assert await over(place, asked.id, time_skipping) >= timedelta(minutes=1)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        assert (worker.node.startswith("w-"), worker.power_cycles) == (True, 1)


async def test_a_machine_that_maas_does_not_take_back_is_left_in_its_place_soon(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    async with opened() as place:
        await place.create()
        worker = (await place.clusters.nodes("blue")).slots[1]
        place.world.locked.add(worker.system_id)
        asked = await place.ask_scale("w", 0)
        assert asked is not None
        await place.start(asked)
        await place.turns(Phase.RECONCILING, f"{worker.system_id} is locked")
        took = await over(place, asked.id, time_skipping)
        assert timedelta(minutes=15) < took < timedelta(minutes=40)
        releases = {
            step.key.undo: step.attempts
            for step in await place.operations.steps(asked.id)
            if step.key.verb == "machines.release"
        }
        assert releases == {False: 12}
        blue = await place.clusters.get("blue")
        assert (blue.phase, "is locked" in blue.message) == (Phase.DEGRADED, True)
        place.world.locked.clear()
        assert (await place.delete()).stage is Stage.SUCCEEDED
        assert place.world.leftovers == []


async def test_time_in_which_a_creation_is_paused_does_not_count(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    async with opened() as place:
        asked = await place.ask()
        place.trouble.at, place.trouble.then = 2, partial(place.pause, asked.id)
        await place.start(asked)
        await until(lambda: place.trouble.fired == 1)
        await time_skipping.sleep(OPERATION_DEADLINE * 2)
        assert (await place.operations.get(asked.id)).ended is None
        await place.resume(asked.id)
        await place.finish(asked.id)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
