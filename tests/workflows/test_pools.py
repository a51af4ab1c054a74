"""Pools added, scaled and deleted: every step may be the last, may run twice, and may be where
somebody calls the work off or deletes the cluster."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from domain.cluster import DrainPolicy, Phase
from domain.errors import DomainError, Failed
from domain.machine import Role, SlotPhase
from domain.operation import Operation, Stage, StepKey
from domain.outline import keys, outline
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble, Yard

Asking = Callable[[Yard], Awaitable[Operation]]


async def scale(place: Yard, count: int) -> Operation:
    operation = await place.ask_scale("w", count)
    assert operation is not None
    return operation


async def add(place: Yard) -> Operation:
    return await place.ask_add("x")


async def drop(place: Yard) -> Operation:
    return await place.ask_drop("w")


MOVES: dict[str, tuple[Asking, int, dict[str, int]]] = {
    "scale up": (partial(scale, count=2), 8, {"w": 2}),
    "scale down": (partial(scale, count=0), 6, {"w": 0}),
    "add": (add, 8, {"w": 1, "x": 1}),
    "delete": (drop, 6, {}),
}
"""What is asked for in a cluster with one worker, in how many steps, and what pools are left."""

EACH = pytest.mark.parametrize("move", MOVES)
DATABASES = {
    "scale up": "sqlite",
    "scale down": "postgresql",
    "add": "postgresql",
    "delete": "sqlite",
}
POINTS = pytest.mark.parametrize(
    ("migrated", "move", "step"),
    [(DATABASES[move], move, step) for move in MOVES for step in range(MOVES[move][1])],
    indirect=["migrated"],
)
"""Every step of every move, each move on one of the databases."""


async def standing(place: Yard) -> None:
    """A cluster with one worker, made without trouble."""
    await place.create()
    assert (await place.clusters.get("blue")).phase is Phase.RUNNING
    place.trouble.seen.clear()


async def assert_true(place: Yard) -> None:
    """Every machine is held by a slot with a Ready node, every node of the API is such a one and
    open to work, and the status says whether that is what is wanted."""
    nodes = await place.clusters.nodes("blue")
    ready = [state.slot for state in nodes.slots if state.phase is SlotPhase.HEALTHY]
    assert place.world.owners == sorted(slot.agent_name for slot in ready)
    [uid] = {slot.cluster_uid for slot in ready}
    assert place.world.nodes[uid] == {slot.name for slot in ready}
    assert not place.world.cordoned
    workers = [slot for slot in ready if slot.role is Role.WORKER]
    masters = {slot.name for slot in ready if slot.role is Role.CONTROL_PLANE}
    assert place.world.tainted == (masters if workers else set())


async def sizes(place: Yard) -> dict[str, int]:
    """How many Ready nodes each pool has."""
    found: dict[str, int] = {}
    for state in (await place.clusters.nodes("blue")).slots[1:]:
        assert state.phase is SlotPhase.HEALTHY
        found[state.slot.pool] = found.get(state.slot.pool, 0) + 1
    return found


async def made_good(place: Yard, move: str, asked: Operation) -> None:
    """Whatever became of the change, asking again brings what was wanted."""
    asking, _, wanted = MOVES[move]
    place.trouble.fail = lambda _: None
    if (await place.clusters.get("blue")).phase is not Phase.RUNNING:
        again = await (place.ask_scale("x", 1) if move == "add" else asking(place))
        assert again is not None
        assert again.id != asked.id
        await place.carry_out(again)
    assert (await place.clusters.get("blue")).phase is Phase.RUNNING
    assert await sizes(place) == {name: count for name, count in wanted.items() if count}
    await assert_true(place)
    await place.delete()
    assert place.world.leftovers == []


@EACH
async def test_a_change_takes_the_steps_of_its_outline(opened: Opening, move: str) -> None:
    asking, steps, _ = MOVES[move]
    async with opened() as place:
        await standing(place)
        asked = await asking(place)
        assert (await place.clusters.get("blue")).phase is Phase.RECONCILING
        await place.carry_out(asked)
        foreseen = keys(outline(asked.kind, await place.operations.plan(asked.id)))
        assert sorted(place.trouble.seen) == sorted(map(str, foreseen))
        assert len(foreseen) == steps
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        await made_good(place, move, asked)


@EACH
async def test_running_every_step_twice_changes_nothing(opened: Opening, move: str) -> None:
    asking, _, _ = MOVES[move]
    async with opened(trouble=Trouble(repeat=True)) as place:
        await standing(place)
        asked = await asking(place)
        await place.carry_out(asked)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        await made_good(place, move, asked)


@POINTS
async def test_failing_anywhere_leaves_what_the_status_says(
    opened: Opening, move: str, step: int
) -> None:
    async with opened() as place:
        await standing(place)
        asked = await MOVES[move][0](place)
        plan = await place.operations.plan(asked.id)
        broken = keys(outline(asked.kind, plan))[step]

        def fail(key: StepKey) -> DomainError | None:
            same = (key.verb, key.subject, key.undo) == (broken.verb, broken.subject, False)
            return Failed("broken on purpose") if same else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        assert place.trouble.fired, "never reached"
        assert (await place.operations.get(asked.id)).ended is not None
        await assert_true(place)
        await made_good(place, move, asked)


@POINTS
async def test_cancelling_anywhere_leaves_what_the_status_says(
    opened: Opening, move: str, step: int
) -> None:
    async with opened() as place:
        await standing(place)
        asked = await MOVES[move][0](place)
        place.trouble.at, place.trouble.then = step, partial(place.cancel, asked.id)
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert place.trouble.fired, "never reached"
        assert operation.stage is Stage.CANCELLED
        assert operation.ended is not None
        assert "cancelled by ann" in (await place.clusters.get("blue")).message
        await assert_true(place)
        place.trouble.at = None
        await made_good(place, move, asked)


@POINTS
async def test_a_delete_takes_over_anywhere(opened: Opening, move: str, step: int) -> None:
    async with opened() as place:
        await standing(place)
        asked = await MOVES[move][0](place)

        async def delete() -> None:
            deleted = await place.ask_delete()
            assert deleted.superseded == asked.id
            await place.start(deleted.operation)

        place.trouble.at, place.trouble.then = step, delete
        await place.carry_out(asked)
        assert place.trouble.fired, "never reached"
        deleting = (await place.operations.page(size=1))[0]
        await place.finish(deleting.id)
        assert place.world.leftovers == []
        assert await place.blue() is None
        assert (await place.operations.get(asked.id)).stage is Stage.SUPERSEDED


async def test_pods_that_will_not_leave_in_time_are_named_and_go_with_their_node(
    opened: Opening,
) -> None:
    held = "default/web-1 (held by PodDisruptionBudget web)"
    async with opened() as place:
        await standing(place)
        worker = (await place.clusters.nodes("blue")).slots[1].slot
        place.world.pods[worker.name] = [held]
        asked = await place.ask_scale("w", 0, drain_seconds=1)
        assert asked is not None
        await place.carry_out(asked)
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.RUNNING
        assert held in cluster.message
        assert any(held in event.note for event in await place.journal.since(asked.id, 0))
        await assert_true(place)


async def test_by_the_strict_policy_a_node_with_pods_that_will_not_leave_stays(
    opened: Opening,
) -> None:
    async with opened() as place:
        await standing(place)
        worker = (await place.clusters.nodes("blue")).slots[1].slot
        place.world.pods[worker.name] = ["default/web-1 (held by PodDisruptionBudget web)"]
        strict = DrainPolicy.STRICT
        asked = await place.ask_scale("w", 0, drain_seconds=1, drain_policy=strict)
        assert asked is not None
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert operation.stage is Stage.FAILED
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.DEGRADED
        assert "default/web-1 (held by PodDisruptionBudget web)" in cluster.message
        assert await sizes(place) == {"w": 1}
        await assert_true(place)


async def test_part_of_a_growth_is_kept_and_the_rest_made_good_by_asking_again(
    opened: Opening,
) -> None:
    async with opened() as place:
        await standing(place)
        asked = await scale(place, 3)
        plan = await place.operations.plan(asked.id)
        broken = plan.workers[-1].name

        def fail(key: StepKey) -> DomainError | None:
            refused = (key.verb, key.subject) == ("kubeadm.join", broken)
            return Failed("broken on purpose") if refused else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.DEGRADED
        assert "1 node added" in cluster.message
        assert broken in cluster.message
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        await assert_true(place)
        place.trouble.fail = lambda _: None
        await place.carry_out(await scale(place, 3))
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        assert await sizes(place) == {"w": 3}
        assert await place.ask_scale("w", 3) is None


async def test_the_first_pool_relieves_the_control_planes_and_the_last_burdens_them(
    opened: Opening,
) -> None:
    async with opened() as place:
        await place.create(3, 0)
        assert not place.world.tainted
        await place.carry_out(await place.ask_add("x"))
        await assert_true(place)
        assert len(place.world.tainted) == 3
        await place.carry_out(await scale_to_nothing(place, "x"))
        await assert_true(place)
        assert not place.world.tainted


async def scale_to_nothing(place: Yard, name: str) -> Operation:
    operation = await place.ask_scale(name, 0)
    assert operation is not None
    return operation


async def test_pods_of_a_node_that_is_not_to_stay_are_asked_to_leave(opened: Opening) -> None:
    async with opened() as place:
        await standing(place)
        asked = await scale(place, count=2)
        place.trouble.at, place.trouble.then = 7, partial(place.cancel, asked.id)
        await place.carry_out(asked)
        plan = await place.operations.plan(asked.id)
        assert plan.change is not None
        assert place.world.evicted == [slot.name for slot in plan.change.adding]
