"""Every step may be the last, may run twice, and may be where somebody calls the work off."""

from collections.abc import Sequence
from functools import partial

import pytest

from domain.cluster import ClusterPlan, Phase
from domain.errors import DomainError, Failed
from domain.machine import Slot
from domain.operation import Stage, StepKey
from domain.outline import keys, outline
from sim.world import MemoryWorld
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

TAKEN_OVER = pytest.mark.parametrize(
    ("migrated", "control_planes", "step"),
    [
        *(("sqlite", 1, step) for step in range(SIZES[1])),
        *(("postgresql", 3, step) for step in range(SIZES[1], SIZES[3])),
    ],
    indirect=["migrated"],
)
"""Until its first control plane is up, a creation with three is no other than one with one."""

REPLAYED = pytest.mark.parametrize(
    ("migrated", "step"),
    [("sqlite", step) for step in range(SIZES[1])],
    indirect=["migrated"],
)


def stands(world: MemoryWorld, plan: ClusterPlan, slots: Sequence[Slot]) -> None:
    """Machines, nodes, etcd members and addresses are those of these slots, and nobody else's."""
    held = {metal.owner: metal for metal in world.machines if metal.owner}
    nodes = {slot.agent_name: slot.name for slot in slots}
    assert {owner: metal.node for owner, metal in held.items()} == nodes
    assert world.nodes[plan.uid] == set(nodes.values())
    controls = [held[slot.agent_name] for slot in plan.control_plane if slot in slots]
    assert sorted(world.members[plan.uid]) == sorted(metal.system_id for metal in controls)
    assert sorted(world.names[plan.endpoint]) == sorted(metal.address for metal in controls)


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
        created = await place.create(control_planes)
        plan = await place.operations.plan(created.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        stands(place.world, plan, plan.slots)
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
        first, *_ = plan.slots
        replaced = broken.subject == plan.endpoint and broken.turn > 1
        if broken.subject == first.name or (broken.subject == plan.endpoint and not replaced):
            assert place.world.leftovers == []
            assert (operation.stage, cluster.phase) == (Stage.FAILED, Phase.ERROR)
            assert "broken on purpose" in cluster.message
        elif replaced:
            stands(place.world, plan, plan.slots)
            assert (operation.stage, cluster.phase) == (Stage.SUCCEEDED, Phase.RUNNING)
        else:
            stands(place.world, plan, [each for each in plan.slots if each.name != broken.subject])
            assert (operation.stage, cluster.phase) == (Stage.SUCCEEDED, Phase.DEGRADED)
            assert "broken on purpose" in cluster.message
        assert place.world.never_reset == []
        await place.delete()
        assert place.world.leftovers == []


async def test_a_control_plane_given_back_leaves_etcd_before_it_is_reset(opened: Opening) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:
        asked = await place.ask(3)
        plan = await place.operations.plan(asked.id)
        name = plan.control_plane[1].name

        def fail(key: StepKey) -> DomainError | None:
            sour = key == StepKey(verb="kubernetes.wait_node", subject=name)
            return Failed("never Ready") if sour else None

        trouble.fail = fail
        await place.carry_out(asked)
        assert trouble.fired == 1
        steps = [str(step.key) for step in await place.operations.steps(asked.id) if step.key.undo]
        assert steps == [
            f"undo kubeadm.leave {name}",
            f"undo kubernetes.delete_node {name}",
            f"undo kubeadm.reset {name}",
            f"undo machines.release {name} #2",
        ]
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        stands(place.world, plan, plan.slots)


async def test_a_member_that_may_still_be_in_etcd_is_said(opened: Opening) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:
        asked = await place.ask(3)
        name = (await place.operations.plan(asked.id)).control_plane[1].name

        def fail(key: StepKey) -> DomainError | None:
            sour = (key.verb, key.turn) in {("kubernetes.wait_node", 1), ("kubeadm.leave", 1)}
            return Failed("broken on purpose") if sour and key.subject == name else None

        trouble.fail = fail
        await place.carry_out(asked)
        assert trouble.fired == 2
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.DEGRADED
        assert f"the etcd member of {name} is still there (broken on purpose)" in cluster.message


async def test_the_endpoint_leads_to_no_control_plane_that_was_given_back(
    opened: Opening,
) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:
        asked = await place.ask(3)
        plan = await place.operations.plan(asked.id)

        def fail(key: StepKey) -> DomainError | None:
            later = key.verb == "endpoints.ensure" and key.turn > 2
            return Failed("broken on purpose") if later else None

        trouble.fail = fail
        await place.carry_out(asked)
        assert trouble.fired, "never reached"
        assert (await place.clusters.get("blue")).phase is Phase.DEGRADED
        first, *_ = plan.control_plane
        stands(place.world, plan, [first, *plan.workers])


@TAKEN_OVER
async def test_a_delete_takes_over_anywhere(
    opened: Opening, control_planes: int, step: int
) -> None:
    trouble = Trouble(at=step)
    async with opened(trouble=trouble) as place:
        asked = await place.ask(control_planes)

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
        assert place.world.never_reset == []
        assert operation.stage is Stage.CANCELLED
        assert operation.ended is not None
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.ERROR
        assert "cancelled by ann" in cluster.message
