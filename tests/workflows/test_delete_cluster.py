"""A delete always works: it asks the machine pool alone, and never gives up."""

from domain.cluster import Phase
from domain.operation import Stage
from tests.workflows.conftest import Opening


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
        await place.operations.cancel(asked.id, "ann")
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
