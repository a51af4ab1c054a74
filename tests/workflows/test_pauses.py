"""Operations that are paused after every step: they end as they would have, once resumed, and can
be called off and taken over as ever."""

from datetime import timedelta
from functools import partial

import pytest
from temporalio.service import RPCError

from domain.cluster import Phase
from domain.operation import Event, OperationId, Stage, StepState
from tests.store.desk import until
from tests.workflows import test_repairs as repairs
from tests.workflows import test_upgrades as upgrades
from tests.workflows.conftest import Opening
from tests.workflows.test_pools import MOVES, POINTS, assert_true, made_good, standing
from tests.workflows.test_sweep import aged, sweep
from tests.workflows.yard import Yard


async def rest_after(place: Yard, operation: OperationId, step: int) -> None:
    """Carry an operation out, and pause it after one of its steps."""
    place.trouble.at, place.trouble.then = step, partial(place.pause, operation)
    await place.start(await place.operations.get(operation))
    await until(lambda: place.trouble.fired == 1)
    await quiet(place, operation)
    place.trouble.at = None


async def has_begun(place: Yard, operation: OperationId) -> bool:
    return (await place.operations.get(operation)).started is not None


async def quiet(place: Yard, operation: OperationId) -> None:
    """Wait until the workflow knows that it is paused, and what was under way has ended."""

    async def is_quiet() -> bool:
        unheeded = await place.operations.unheeded()
        seen = await place.operations.steps(operation)
        return not unheeded and all(step.state is not StepState.ACTIVE for step in seen)

    await until(is_quiet)


def begun_while_paused(lines: list[Event]) -> list[str]:
    """The steps that were begun for the first time while the journal says that all rested."""
    paused, begun, known = False, [], set()
    for line in lines:
        paused = line.note.startswith("paused by") or (
            paused and not line.note.startswith(("resumed by", "cancel asked", "superseded"))
        )
        if line.step is not None and line.step.state is StepState.ACTIVE:
            if paused and line.step.key not in known and not line.step.key.undo:
                begun.append(str(line.step.key))
            known.add(line.step.key)
    return begun


@POINTS
async def test_a_change_that_rests_after_any_step_ends_as_it_would_have(
    opened: Opening, move: str, step: int
) -> None:
    async with opened() as place:
        await standing(place)
        asked = await MOVES[move][0](place)
        await rest_after(place, asked.id, step)
        if step < MOVES[move][1] - 1:  # after the last there is nothing to wait with
            resting = await place.operations.get(asked.id)
            assert (resting.paused_by, resting.ended) == ("ann", None)
            assert "paused by ann" in (await place.clusters.get("blue")).message
            await place.resume(asked.id)
        await place.finish(asked.id)
        operation = await place.operations.get(asked.id)
        assert (operation.stage, operation.paused_by) == (Stage.SUCCEEDED, "")
        assert begun_while_paused(list(await place.journal.since(asked.id, 0))) == []
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        await made_good(place, move, asked)


@POINTS
async def test_what_rests_can_be_called_off(opened: Opening, move: str, step: int) -> None:
    async with opened() as place:
        await standing(place)
        asked = await MOVES[move][0](place)
        await rest_after(place, asked.id, step)
        if step < MOVES[move][1] - 1:
            await place.cancel(asked.id)
        await place.finish(asked.id)
        if step < MOVES[move][1] - 1:
            operation = await place.operations.get(asked.id)
            assert (operation.stage, operation.paused_by) == (Stage.CANCELLED, "")
        assert begun_while_paused(list(await place.journal.since(asked.id, 0))) == []
        await assert_true(place)
        await made_good(place, move, asked)


@POINTS
async def test_a_delete_takes_over_what_rests(opened: Opening, move: str, step: int) -> None:
    async with opened() as place:
        await standing(place)
        asked = await MOVES[move][0](place)
        await rest_after(place, asked.id, step)
        await place.delete()
        assert place.world.leftovers == []
        assert await place.blue() is None
        assert (await place.operations.get(asked.id)).paused_by == ""


@pytest.mark.parametrize("step", [0, 4, 9, 14, 18])
async def test_a_creation_that_rests_outlives_all_workers(opened: Opening, step: int) -> None:
    async with opened() as place:
        asked = await place.ask()
        await rest_after(place, asked.id, step)
        world = place.world
    async with opened(world=world) as place:
        assert (await place.operations.get(asked.id)).paused_by == "ann"
        taken = len(place.trouble.seen)
        await place.nudge(asked.id)
        await quiet(place, asked.id)
        assert len(place.trouble.seen) == taken
        await place.resume(asked.id)
        await place.finish(asked.id)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        await assert_true(place)


async def test_what_is_paused_before_it_begins_takes_no_step(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await place.steering.pause(asked.id, "ann")
        await place.start(asked)
        await until(lambda: has_begun(place, asked.id))
        await quiet(place, asked.id)
        assert place.trouble.seen == []
        await place.resume(asked.id)
        await place.finish(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


async def test_what_is_called_off_while_it_rests_before_it_begins_takes_nothing(
    opened: Opening,
) -> None:
    async with opened() as place:
        asked = await place.ask()
        await place.steering.pause(asked.id, "ann")
        await place.steering.cancel(asked.id, "ann")
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert (operation.stage, operation.paused_by) == (Stage.CANCELLED, "")
        assert place.world.leftovers == []


async def test_a_nudge_that_was_lost_is_given_again_by_the_sweep(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await rest_after(place, asked.id, 3)
        await place.steering.resume(asked.id, "ann")  # and nobody says so
        assert [each.id for each in await place.operations.unheeded()] == [asked.id]
        await sweep(place)
        await place.finish(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


async def test_what_a_sweep_has_started_rests_as_well(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        place.trouble.at, place.trouble.then = 3, partial(place.pause, asked.id)
        await aged(place, asked, "created", timedelta(minutes=1))
        await sweep(place)
        await until(lambda: place.trouble.fired == 1)
        await quiet(place, asked.id)
        await place.resume(asked.id)
        await place.finish(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


RENEWALS = pytest.mark.parametrize(
    ("migrated", "step"),
    [
        *(("sqlite", step) for step in (2, 5, 9)),
        *(("postgresql", step) for step in (3, 6, 12)),
    ],
    indirect=["migrated"],
)
"""After which step of an upgrade with one control plane it rests: before a node is touched, before
it is closed, and with its pods gone; with the kubelet renewed; between two nodes; and with the
worker's pods gone."""


def runs(place: Yard) -> tuple[list[str], dict[str, str]]:
    """What kubeadm was told to do so far, and which kubelet is on every machine."""
    world = place.world
    return list(world.kubeadm_runs), {metal.node: metal.kubelet for metal in world.machines}


@RENEWALS
async def test_an_upgrade_that_rests_can_be_called_off_and_begins_nothing_by_that(
    opened: Opening, step: int
) -> None:
    async with opened() as place:
        await upgrades.standing(place)
        asked = await place.ask_upgrade(upgrades.AFTER)
        await rest_after(place, asked.id, step)
        as_it_rested = runs(place)
        await place.cancel(asked.id)
        await place.finish(asked.id)
        assert runs(place) == as_it_rested
        operation = await place.operations.get(asked.id)
        assert (operation.stage, operation.paused_by) == (Stage.CANCELLED, "")
        await upgrades.assert_true(place, touched=upgrades.has_touched(place))
        await upgrades.made_good(place)


@RENEWALS
async def test_a_delete_takes_over_an_upgrade_that_rests(opened: Opening, step: int) -> None:
    async with opened() as place:
        await upgrades.standing(place)
        asked = await place.ask_upgrade(upgrades.AFTER)
        await rest_after(place, asked.id, step)
        as_it_rested, _ = runs(place)
        await place.delete()
        assert runs(place)[0] == as_it_rested
        assert not place.world.disturbed
        assert place.world.leftovers == []
        assert await place.blue() is None


REPAIRS = pytest.mark.parametrize(
    ("migrated", "case", "step"),
    [
        ("sqlite", "worker replaced", 1),
        ("postgresql", "worker replaced", 2),
        ("postgresql", "worker missing", 5),
        ("sqlite", "control plane restarted", 0),
        ("sqlite", "control plane replaced", 2),
        ("postgresql", "control plane replaced", 3),
        ("sqlite", "control plane missing", 7),
    ],
    indirect=["migrated"],
)
"""After which steps repairs rest: with a machine switched off or just on again, with a node half
out of its cluster, and with one that is about to join it or has joined."""


@REPAIRS
async def test_a_repair_that_rests_can_be_called_off(opened: Opening, case: str, step: int) -> None:
    async with opened() as place:
        asked = await repairs.broken(place, case)
        await rest_after(place, asked.id, step)
        await place.cancel(asked.id)
        await place.finish(asked.id)
        operation = await place.operations.get(asked.id)
        assert (operation.stage, operation.paused_by) == (Stage.CANCELLED, "")
        assert all(metal.powered for metal in place.world.machines if metal.owner)
        assert not place.world.cordoned
        await repairs.assert_quorum(place)
        await repairs.made_good(place)


@pytest.mark.parametrize(
    ("migrated", "case", "step"),
    [("postgresql", "worker replaced", 0), ("sqlite", "control plane replaced", 3)],
    indirect=["migrated"],
)
async def test_a_delete_takes_over_a_repair_that_rests(
    opened: Opening, case: str, step: int
) -> None:
    async with opened() as place:
        asked = await repairs.broken(place, case)
        await rest_after(place, asked.id, step)
        await place.delete()
        assert await place.blue() is None
        assert place.world.leftovers == []


async def test_a_node_that_nobody_began_to_upgrade_is_left_as_it_is_by_a_cancel(
    opened: Opening,
) -> None:
    """Nobody says that it is paused, so the node's turn is held at its very first step."""
    async with opened() as place:
        await upgrades.standing(place)
        asked = await place.ask_upgrade(upgrades.AFTER)

        async def pause() -> None:
            await place.steering.pause(asked.id, "ann")

        place.trouble.when = lambda key: key.verb == "kubeadm.back_up"
        place.trouble.then = pause
        await place.start(asked)
        node = (await upgrades.planned(place, asked)).machines[0]
        name = f"m-{node.slot.cluster_uid[:8]}-{node.named}-upgrade-{asked.id}"
        await until(lambda: was_refused(place, name))
        as_it_rested = runs(place)
        await place.cancel(asked.id)
        await place.finish(asked.id)
        assert runs(place) == as_it_rested
        await upgrades.assert_true(place, touched=False)
        place.trouble.when = lambda _: False
        await upgrades.made_good(place)


async def was_refused(place: Yard, name: str) -> bool:
    """Whether a workflow has had a step refused."""
    try:
        history = await place.client.get_workflow_handle(name).fetch_history()
    except RPCError:  # it has not begun
        return False
    return any(event.HasField("activity_task_failed_event_attributes") for event in history.events)
