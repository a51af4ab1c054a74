"""Deletes that are forced: the cluster goes, and what MAAS keeps is told and never lost."""

import asyncio
from contextlib import suppress

import pytest

from domain.cluster import Phase
from domain.errors import Failed, Unavailable
from domain.operation import Ask, Operation, Stage
from tests.store.desk import until
from tests.workflows.conftest import Opening
from tests.workflows.yard import Yard

FORCED = Ask(method="delete", force=True)


async def forced(place: Yard) -> Operation:
    """Ask for a forced delete of `blue`, carry it out, and tell how it ended."""
    asked = (await place.clusters.request_delete("blue", FORCED)).operation
    await place.carry_out(asked)
    return await place.operations.get(asked.id)


async def is_refused(place: Yard, operation: Operation) -> bool:
    seen = await place.operations.steps(operation.id)
    return any("is locked" in step.note for step in seen)


async def test_what_can_be_given_back_is(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        operation = await forced(place)
        assert (operation.stage, operation.left_behind) == (Stage.SUCCEEDED, ())
        assert place.world.leftovers == []
        assert await place.blue() is None


async def test_what_maas_keeps_is_left_and_named(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        worker = (await place.clusters.nodes("blue")).slots[1]
        place.world.locked.add(worker.system_id)
        operation = await forced(place)
        assert operation.stage is Stage.SUCCEEDED
        assert await place.blue() is None
        left = {each.name: each for each in operation.left_behind}
        assert left[worker.slot.name].system_id == worker.system_id
        assert left[worker.slot.name].agent_name == worker.slot.agent_name
        assert "is locked" in left[worker.slot.name].why
        said = [line.note for line in await place.journal.since(operation.id, 0)]
        assert f"{worker.slot.name} ({worker.system_id}): " in said[-1]
        assert place.world.owners == [worker.slot.agent_name]


async def test_a_delete_that_is_stuck_is_taken_over(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        place.world.locked.add((await place.clusters.nodes("blue")).slots[1].system_id)
        stuck = (await place.ask_delete()).operation
        await place.start(stuck)
        await until(lambda: is_refused(place, stuck))
        operation = await forced(place)
        assert operation.supersedes == stuck.id
        assert operation.stage is Stage.SUCCEEDED
        assert (await place.operations.get(stuck.id)).stage is Stage.SUPERSEDED
        assert await place.blue() is None
        again = await place.create(workers=0)  # the name is free
        assert again.stage is Stage.SUCCEEDED


async def test_a_node_that_somebody_closed_is_closed_no_more_when_its_cluster_is_gone(
    opened: Opening,
) -> None:
    """Say, a hand of an upgrade that was pushed aside. What the API knew goes with its hosts."""
    async with opened() as place:
        await place.create()
        for state in (await place.clusters.nodes("blue")).slots:
            place.world.cordoned.add(state.slot.name)
            place.world.marked.add(state.slot.name)
        assert (await forced(place)).stage is Stage.SUCCEEDED
        assert not place.world.cordoned
        assert not place.world.marked


async def test_nothing_outlives_a_delete_that_was_forced(opened: Opening) -> None:
    """An operation pushed aside by a delete that is pushed aside itself writes nothing more."""
    async with opened() as place:
        asked = await place.ask()
        place.trouble.fail = lambda key: Unavailable("away") if key.undo else None

        deleted = asyncio.Event()

        async def delete() -> None:
            await place.ask_delete()
            deleted.set()

        place.trouble.at, place.trouble.then = 12, delete
        await place.start(asked)
        await deleted.wait()
        [plain, created] = await place.operations.page(size=2)
        await place.start(plain)
        await until(lambda: place.trouble.fired > 3)  # the undo goes round in circles
        operation = await forced(place)
        assert operation.stage is Stage.SUCCEEDED
        for each in (plain, created):
            assert (await place.operations.get(each.id)).ended is not None
        assert await place.blue() is None


async def test_a_machine_that_is_taken_late_is_given_back(opened: Opening) -> None:
    """By a hand that was at work when its operation was fenced."""
    async with opened() as place:
        asked = await place.ask(workers=0)
        slot = (await place.operations.plan(asked.id)).slots[0]
        stray, at_work = place.world.machines[-1], asyncio.Event()

        async def are_released() -> bool:
            newest = (await place.operations.page(size=1))[0]
            steps = await place.operations.steps(newest.id)
            return any(step.done and step.key.verb == "machines.release" for step in steps)

        async def take_late() -> None:
            at_work.set()
            await until(are_released)
            stray.owner, stray.cluster = f"{slot.agent_name}-late", slot.cluster_uid

        taking = asyncio.create_task(asyncio.sleep(0))

        async def ignore_every_cancel() -> None:
            nonlocal taking
            taking = asyncio.create_task(take_late())
            while not taking.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(taking)

        place.trouble.at, place.trouble.then = 2, ignore_every_cancel
        await place.start(asked)
        await at_work.wait()
        await place.start((await place.ask_delete()).operation)
        assert (await forced(place)).stage is Stage.SUCCEEDED
        assert taking.done()
        assert place.world.leftovers == []


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.ERROR])
async def test_it_may_be_asked_for_at_once(opened: Opening, phase: Phase) -> None:
    async with opened() as place:
        if phase is Phase.ERROR:
            place.trouble.fail = lambda key: (
                Failed("broken") if key.verb == "kubeadm.initialise" else None
            )
        await place.create()
        place.trouble.fail = lambda _: None
        assert (await place.clusters.get("blue")).phase is phase
        assert (await forced(place)).stage is Stage.SUCCEEDED
        assert place.world.leftovers == []
