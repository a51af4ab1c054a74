"""Every step may be the last, may run twice, and may be where somebody calls the work off."""

from functools import partial

import pytest

from domain.cluster import Phase
from domain.errors import DomainError, Failed
from domain.operation import Stage, StepKey
from domain.outline import keys, outline
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble

SIZES = {1: 20, 3: 38}
"""Steps of a creation with one worker, by its number of control planes."""

POINTS = pytest.mark.parametrize(
    ("migrated", "control_planes", "step"),
    [
        (database, size, step)
        for size, database in ((1, "postgresql"), (3, "sqlite"))
        for step in range(SIZES[size])
    ],
    indirect=["migrated"],
)
"""Every step of both sizes. Each size is tried on one of the databases: what differs between the
databases is the store's own affair and tested there."""

REPLAYED = pytest.mark.parametrize(
    ("migrated", "step"),
    [("sqlite", step) for step in range(SIZES[1])],
    indirect=["migrated"],
)


@pytest.mark.parametrize("control_planes", SIZES)
async def test_a_creation_takes_the_steps_of_its_outline(
    opened: Opening, control_planes: int
) -> None:
    async with opened() as place:
        operation = await place.create(control_planes)
        plan = await place.operations.plan(operation.id)
        foreseen = [str(key) for key in keys(outline(operation.kind, plan))]
        assert sorted(place.trouble.seen) == sorted(foreseen)
        assert len(foreseen) == SIZES[control_planes]
        assert operation.stage is Stage.SUCCEEDED
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        assert len({metal for _, metal in place.world.taken}) == control_planes + 1


@pytest.mark.parametrize("control_planes", SIZES)
async def test_running_every_step_twice_changes_nothing(
    opened: Opening, control_planes: int
) -> None:
    async with opened(trouble=Trouble(repeat=True)) as place:
        await place.create(control_planes)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        assert len(place.world.taken) == control_planes + 1
        assert len(place.world.kubeadm_runs) == control_planes + 1
        await place.delete()
        assert place.world.leftovers == []


@POINTS
async def test_failing_anywhere_leaves_nothing_that_is_not_needed(
    opened: Opening, control_planes: int, step: int
) -> None:
    await _failed(opened, control_planes, step, cached=True)


@REPLAYED
async def test_failing_anywhere_leaves_nothing_when_every_task_replays(
    opened: Opening, step: int
) -> None:
    await _failed(opened, 1, step, cached=False)


async def _failed(opened: Opening, control_planes: int, step: int, *, cached: bool) -> None:
    """One step of one slot fails, whatever machine is tried for it, each time after its work."""
    trouble = Trouble()
    async with opened(trouble=trouble, cached=cached) as place:
        asked = await place.ask(control_planes)
        plan = await place.operations.plan(asked.id)
        broken = keys(outline(asked.kind, plan))[step]

        def fail(key: StepKey) -> DomainError | None:
            same_turn = key.turn == broken.turn or key.subject != plan.endpoint
            if (key.verb, key.subject) == (broken.verb, broken.subject) and same_turn:
                return Failed("broken on purpose")
            return None

        trouble.fail = fail
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        cluster = await place.clusters.get("blue")
        assert trouble.fired, "never reached"
        assert operation.ended is not None
        first, *others = plan.slots
        replaced = broken.subject == plan.endpoint and broken.turn > 1
        spared = [slot.agent_name for slot in others if slot.name != broken.subject]
        if broken.subject == first.name or (broken.subject == plan.endpoint and not replaced):
            assert place.world.leftovers == []
            assert (operation.stage, cluster.phase) == (Stage.FAILED, Phase.ERROR)
            assert "broken on purpose" in cluster.message
        elif replaced:
            assert cluster.phase is Phase.RUNNING
        else:
            assert place.world.owners == sorted([first.agent_name, *spared])
            assert (operation.stage, cluster.phase) == (Stage.SUCCEEDED, Phase.DEGRADED)
            assert "broken on purpose" in cluster.message
        await place.delete()
        assert place.world.leftovers == []


@REPLAYED
async def test_a_delete_takes_over_anywhere(opened: Opening, step: int) -> None:
    trouble = Trouble(at=step)
    async with opened(trouble=trouble) as place:
        asked = await place.ask()

        async def delete() -> None:
            deleted = await place.ask_delete()
            assert deleted.superseded == asked.id
            await place.start(deleted.operation)

        trouble.then = delete
        await place.carry_out(asked)
        assert trouble.fired, "never reached"
        (deleting,) = [
            each for each in await place.operations.page(size=10) if each.supersedes == asked.id
        ]
        await place.finish(deleting.id)
        assert place.world.leftovers == []
        assert await place.blue() is None
        assert (await place.operations.get(asked.id)).stage is Stage.SUPERSEDED
        assert (await place.operations.get(deleting.id)).stage is Stage.SUCCEEDED


@POINTS
async def test_cancelling_anywhere_leaves_nothing(
    opened: Opening, control_planes: int, step: int
) -> None:
    await _cancelled(opened, control_planes, step, cached=True)


@REPLAYED
async def test_cancelling_anywhere_leaves_nothing_when_every_task_replays(
    opened: Opening, step: int
) -> None:
    await _cancelled(opened, 1, step, cached=False)


async def _cancelled(opened: Opening, control_planes: int, step: int, *, cached: bool) -> None:
    trouble = Trouble(at=step)
    async with opened(trouble=trouble, cached=cached) as place:
        asked = await place.ask(control_planes)
        trouble.then = partial(place.cancel, asked.id)
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert trouble.fired, "never reached"
        assert place.world.leftovers == []
        assert operation.stage is Stage.CANCELLED
        assert operation.ended is not None
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.ERROR
        assert "cancelled by ann" in cluster.message
