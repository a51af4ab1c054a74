"""A delete always works: it asks the machine pool alone, and never gives up."""

import pytest

from domain.cluster import Phase
from domain.errors import Conflict, DomainError, Failed, Unavailable
from domain.operation import Kind, Operation, Stage, StepKey
from domain.outline import keys, outline
from tests.workflows.conftest import Opening
from tests.workflows.yard import Yard

STEPS = {1: 4, 3: 6}
"""Steps of a deletion with one worker, by its number of control planes."""

BOTH = pytest.mark.parametrize(
    ("migrated", "control_planes"), [("postgresql", 1), ("sqlite", 3)], indirect=["migrated"]
)

POINTS = pytest.mark.parametrize(
    ("migrated", "control_planes", "step"),
    [
        (database, size, step)
        for size, database in ((1, "postgresql"), (3, "sqlite"))
        for step in range(STEPS[size])
    ],
    indirect=["migrated"],
)


async def test_a_delete_gives_everything_back_and_frees_the_name(opened: Opening) -> None:
    async with opened() as place:
        await place.create(control_planes=3)
        operation = await place.delete()
        assert operation.stage is Stage.SUCCEEDED
        assert place.world.leftovers == []
        assert await place.blue() is None
        assert (await place.create()).stage is Stage.SUCCEEDED


async def test_a_delete_needs_no_host_that_answers(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        for metal in place.world.machines:
            metal.deployed = False
        place.world.members.clear()
        place.world.nodes.clear()
        assert (await place.delete()).stage is Stage.SUCCEEDED
        assert place.world.leftovers == []


async def test_a_machine_no_row_knows_of_is_swept_up(opened: Opening) -> None:
    async with opened() as place:
        created = await place.create()
        plan = await place.operations.plan(created.id)
        stray = next(metal for metal in place.world.machines if not metal.owner)
        stray.owner, stray.cluster = f"kaas-{plan.uid[:8]}-stray", plan.uid
        await place.delete()
        assert place.world.leftovers == []


async def test_a_release_refused_for_good_is_tried_again_all_the_same(opened: Opening) -> None:
    async with opened() as place:
        await place.create(workers=0)
        place.world.refusing = 1
        operation = await place.delete()
        assert operation.stage is Stage.SUCCEEDED
        assert place.world.leftovers == []
        steps = {step.key.verb: step for step in await place.operations.steps(operation.id)}
        assert steps["machines.release"].attempts == 2


async def test_a_create_that_never_began_is_superseded_at_once(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        operation = await place.delete()
        assert operation.stage is Stage.SUCCEEDED
        assert operation.supersedes is None
        await place.carry_out(asked)  # the launch that comes too late
        assert (await place.operations.get(asked.id)).stage is Stage.SUPERSEDED
        assert place.world.taken == []


async def test_what_was_called_off_before_it_began_takes_nothing(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await place.steering.cancel(asked.id, "ann")
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert operation.stage is Stage.CANCELLED
        assert (await place.clusters.get("blue")).phase is Phase.ERROR
        assert place.world.taken == []


async def test_deleting_twice_is_one_delete(opened: Opening) -> None:
    async with opened() as place:
        await place.create(workers=0)
        first, second = await place.ask_delete(), await place.ask_delete()
        assert first.operation.id == second.operation.id
        await place.carry_out(first.operation)
        assert place.world.leftovers == []


async def foreseen(place: Yard, control_planes: int) -> list[StepKey]:
    """Create `blue`, and tell the steps that its delete will take."""
    created = await place.create(control_planes)
    place.trouble.seen.clear()
    plan = await place.operations.plan(created.id)
    steps = keys(outline(Kind.DELETE_CLUSTER, plan))
    assert len(steps) == STEPS[control_planes]
    return steps


@BOTH
async def test_every_step_of_a_delete_may_fail_once_after_its_work(
    opened: Opening, control_planes: int
) -> None:
    async with opened() as place:
        steps = await foreseen(place, control_planes)
        sound = set(steps)

        def fail(key: StepKey) -> DomainError | None:
            first = key in sound
            sound.discard(key)
            return Unavailable("broken on purpose") if first else None

        place.trouble.fail = fail
        operation = await place.delete()
        seen = await place.operations.steps(operation.id)
        assert {step.key: step.attempts for step in seen} == dict.fromkeys(steps, 2)
        assert operation.stage is Stage.SUCCEEDED
        assert place.world.leftovers == []
        assert await place.blue() is None


@POINTS
async def test_a_delete_that_fails_anywhere_says_why_and_a_second_one_ends_it(
    opened: Opening, control_planes: int, step: int
) -> None:
    async with opened() as place:
        broken = (await foreseen(place, control_planes))[step]
        place.trouble.fail = lambda key: Failed("broken on purpose") if key == broken else None
        operation = await place.delete()
        place.trouble.fail = lambda _: None
        assert place.trouble.fired == 1
        assert operation.stage is Stage.FAILED
        await ended_by_another(place, operation, "broken on purpose")


@POINTS
async def test_a_delete_cancelled_anywhere_in_temporal_says_so_and_a_second_one_ends_it(
    opened: Opening, control_planes: int, step: int
) -> None:
    """Through us nobody can cancel a delete."""
    async with opened() as place:
        await foreseen(place, control_planes)
        asked = (await place.ask_delete()).operation
        refusals = []

        async def cancel() -> None:
            try:
                await place.steering.cancel(asked.id, "ann")
            except Conflict as error:
                refusals.append(error.reason)
            await place.client.get_workflow_handle(f"op-{asked.id}").cancel()

        place.trouble.at, place.trouble.then = step, cancel
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert refusals == ["NOT_CANCELLABLE"]
        assert operation.stage is Stage.CANCELLED
        await ended_by_another(place, operation, "cancelled by someone in Temporal")


async def ended_by_another(place: Yard, operation: Operation, why: str) -> None:
    """A delete that came to nothing leaves a cluster that says so and can be deleted."""
    assert operation.failure
    assert operation.failure.message == why
    cluster = await place.clusters.get("blue")
    assert cluster.phase is Phase.STOPPING
    assert why in cluster.message
    assert operation.id in cluster.message
    again = await place.delete()
    assert again.id != operation.id
    assert again.stage is Stage.SUCCEEDED
    assert place.world.leftovers == []
    assert await place.blue() is None
