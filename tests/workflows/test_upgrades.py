"""Clusters upgraded: every step may be the last, may run twice, and may be where somebody calls the
upgrade off or deletes the cluster."""

from functools import partial

import pytest
from sqlalchemy import update

from domain.cluster import DrainPolicy, Phase, Upgrade
from domain.errors import Conflict, DomainError, Failed
from domain.machine import SlotPhase
from domain.operation import Operation, Stage, StepKey
from domain.outline import keys, outline
from domain.releases import CATALOGUE, Version
from domain.upgrades import TOUCHES, behind, offered
from store.rows import OperationRow
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble, Yard

BEFORE, AFTER = "1.31.4", "1.32.1"

SIZES = {1: 17, 3: 33}
"""Steps of an upgrade with one worker, by its number of control planes."""

EACH = pytest.mark.parametrize("control_planes", SIZES)
POINTS = pytest.mark.parametrize(
    ("migrated", "control_planes", "step"),
    [
        (database, size, step)
        for size, database in ((1, "postgresql"), (3, "sqlite"))
        for step in range(SIZES[size])
    ],
    indirect=["migrated"],
)
"""Every step of both sizes, each size on one of the databases."""

TAKEN_OVER = pytest.mark.parametrize(
    ("migrated", "control_planes", "step"),
    [
        *(("sqlite", 1, step) for step in range(SIZES[1])),
        *(("postgresql", 3, step) for step in range(12, 20)),
    ],
    indirect=["migrated"],
)
"""With three control planes only what one alone does not have: another to come."""


async def standing(place: Yard, control_planes: int = 1, workers: int = 1) -> None:
    """A cluster of the old version, made without trouble."""
    await place.create(control_planes, workers, version=BEFORE)
    assert (await place.clusters.get("blue")).phase is Phase.RUNNING
    place.trouble.seen.clear()


async def planned(place: Yard, asked: Operation) -> Upgrade:
    plan = await place.operations.plan(asked.id)
    assert plan.upgrade is not None
    return plan.upgrade


async def assert_true(place: Yard, *, touched: bool) -> None:
    """No node is left closed or was disturbed, the rows say what every kubelet is, no kubelet is
    newer than an API server, and the status says how far the cluster has come."""
    world, cluster = place.world, await place.clusters.get("blue")
    slots = (await place.clusters.nodes("blue")).slots
    assert not world.cordoned
    assert not world.disturbed
    running = {metal.owner: metal.kubelet for metal in world.machines if metal.owner}
    assert {state.slot.agent_name: state.kubelet for state in slots} == running
    assert {state.phase for state in slots} == {SlotPhase.HEALTHY}
    assert {state.slot.release.version for state in slots} == set(running.values())
    servers = [metal.server for metal in world.servers(cluster.uid)]
    oldest = min(map(Version.parse, servers))
    for metal in (metal for metal in world.machines if metal.owner):
        newest = Version.parse(metal.server) if metal.server else oldest
        assert Version.parse(metal.kubelet) <= newest
    if not behind(slots, AFTER):
        assert (cluster.phase, cluster.version, cluster.pending) == (Phase.RUNNING, AFTER, "")
    elif touched:
        assert (cluster.phase, cluster.version, cluster.pending) == (Phase.DEGRADED, BEFORE, AFTER)
        assert offered(cluster, slots, CATALOGUE) == [AFTER]
    else:
        assert (cluster.phase, cluster.version, cluster.pending) == (Phase.RUNNING, BEFORE, "")
        assert set(running.values()) == {BEFORE}


def has_touched(place: Yard) -> bool:
    return any(seen.startswith(TOUCHES) for seen in place.trouble.seen)


async def made_good(place: Yard) -> None:
    """Whatever became of the upgrade, asking again finishes it and repeats nothing."""
    place.trouble.fail, place.trouble.at = lambda _: None, None
    place.trouble.seen.clear()
    if (await place.clusters.get("blue")).version == AFTER:
        with pytest.raises(Conflict, match=f"already at {AFTER}"):
            await place.ask_upgrade(AFTER)
    else:
        left = behind((await place.clusters.nodes("blue")).slots, AFTER)
        again = await place.ask_upgrade(AFTER)
        await place.carry_out(again)
        assert (await place.operations.get(again.id)).stage is Stage.SUCCEEDED
        touched = [seen for seen in place.trouble.seen if seen.startswith(f"{TOUCHES} ")]
        assert touched == [f"{TOUCHES} {state.slot.name}" for state in left]
    cluster = await place.clusters.get("blue")
    assert (cluster.phase, cluster.version) == (Phase.RUNNING, AFTER)
    servers = place.world.servers(cluster.uid)
    assert {m.server for m in servers} == {AFTER} == {place.world.networks[cluster.uid]}
    await assert_true(place, touched=True)
    await place.delete()
    assert place.world.leftovers == []


@EACH
async def test_an_upgrade_takes_the_steps_of_its_outline_in_their_order(
    opened: Opening, control_planes: int
) -> None:
    async with opened() as place:
        await standing(place, control_planes)
        asked = await place.ask_upgrade(AFTER)
        cluster = await place.clusters.get("blue")
        assert (cluster.phase, cluster.pending) == (Phase.RECONCILING, AFTER)
        await place.carry_out(asked)
        foreseen = keys(outline(asked.kind, await place.operations.plan(asked.id)))
        ahead = control_planes  # they are looked at side by side
        assert sorted(place.trouble.seen[:ahead]) == sorted(map(str, foreseen[:ahead]))
        assert place.trouble.seen[ahead:] == list(map(str, foreseen[ahead:]))
        assert len(foreseen) == SIZES[control_planes]
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        notes = [event.note for event in await place.journal.since(asked.id, 0)]
        assert f"kubeadm foresees: {BEFORE} can go on" in notes
        assert set(place.world.snapshots.values()) == {BEFORE}
        nodes = control_planes + 1
        said = f"upgrade {BEFORE}->{AFTER}: {nodes}/{nodes} nodes; every node runs {AFTER} (op"
        assert (await place.clusters.get("blue")).message.startswith(said)
        await assert_true(place, touched=True)
        await made_good(place)


@EACH
async def test_running_every_step_twice_changes_nothing(
    opened: Opening, control_planes: int
) -> None:
    async with opened(trouble=Trouble(repeat=True)) as place:
        await standing(place, control_planes)
        place.world.kubeadm_runs.clear()
        await place.carry_out(await place.ask_upgrade(AFTER))
        assert len(place.world.kubeadm_runs) == control_planes + 1
        await assert_true(place, touched=True)
        await made_good(place)


@POINTS
async def test_failing_anywhere_leaves_what_the_status_says(
    opened: Opening, control_planes: int, step: int
) -> None:
    await _failed(opened, control_planes, step, cached=True)


@pytest.mark.parametrize(
    ("migrated", "step"), [("sqlite", step) for step in range(SIZES[1])], indirect=["migrated"]
)
async def test_failing_anywhere_leaves_what_the_status_says_when_every_task_replays(
    opened: Opening, step: int
) -> None:
    await _failed(opened, 1, step, cached=False)


async def _failed(opened: Opening, control_planes: int, step: int, *, cached: bool) -> None:
    async with opened(cached=cached) as place:
        await standing(place, control_planes)
        asked = await place.ask_upgrade(AFTER)
        broken = keys(outline(asked.kind, await place.operations.plan(asked.id)))[step]

        def fail(key: StepKey) -> DomainError | None:
            same = (key.verb, key.subject, key.undo) == (broken.verb, broken.subject, False)
            return Failed("broken on purpose") if same else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        assert place.trouble.fired, "never reached"
        assert (await place.operations.get(asked.id)).stage is Stage.FAILED
        cluster = await place.clusters.get("blue")
        assert "broken on purpose" in cluster.message
        touched = has_touched(place)
        masters = control_planes if broken.verb == "kubernetes.install_network" else 0
        at = f"stopped at {'the pod network' if masters else broken.subject} ("
        assert (at in cluster.message) is touched
        steps = list(map(StepKey.parse, place.trouble.seen))
        nodes = [machine.named for machine in (await planned(place, asked)).machines]
        begun = list(dict.fromkeys(step.subject for step in steps if step.verb == TOUCHES))
        rolled = nodes[: masters or nodes.index(broken.subject) + 1] if touched else []
        assert begun == rolled, "it rolled on, or stopped early"
        await assert_true(place, touched=touched)
        await made_good(place)


@POINTS
async def test_cancelling_anywhere_stops_between_two_nodes(
    opened: Opening, control_planes: int, step: int
) -> None:
    async with opened() as place:
        await standing(place, control_planes)
        asked = await place.ask_upgrade(AFTER)
        place.trouble.at, place.trouble.then = step, partial(place.cancel, asked.id)
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert place.trouble.fired, "never reached"
        assert (operation.stage, operation.ended is None) == (Stage.CANCELLED, False)
        assert "cancelled by ann" in (await place.clusters.get("blue")).message
        await assert_true(place, touched=has_touched(place))
        await made_good(place)


@TAKEN_OVER
async def test_a_delete_takes_over_anywhere(
    opened: Opening, control_planes: int, step: int
) -> None:
    async with opened() as place:
        await standing(place, control_planes)
        asked = await place.ask_upgrade(AFTER)

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
        assert not place.world.disturbed
        assert await place.blue() is None
        assert (await place.operations.get(asked.id)).stage is Stage.SUPERSEDED


async def test_kubeadm_is_given_a_second_try(opened: Opening) -> None:
    async with opened() as place:
        await standing(place)

        def fail(key: StepKey) -> DomainError | None:
            return Failed("once") if key.verb == TOUCHES and key.turn == 1 else None

        place.trouble.fail = fail
        asked = await place.ask_upgrade(AFTER)
        await place.carry_out(asked)
        assert place.trouble.fired == 2
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        await assert_true(place, touched=True)


@pytest.mark.parametrize("number", [0, 1])
async def test_a_node_that_cannot_be_renewed_stays_what_it_is_and_is_named(
    opened: Opening, number: int
) -> None:
    async with opened() as place:
        await standing(place)
        stuck = (await place.clusters.nodes("blue")).slots[number].system_id
        place.world.stuck.add(stuck)
        asked = await place.ask_upgrade(AFTER)
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.FAILED
        cluster = await place.clusters.get("blue")
        assert f"upgrade {BEFORE}->{AFTER}: {number}/2 nodes; stopped at" in cluster.message
        assert f"dpkg on {stuck} is broken" in cluster.message
        await assert_true(place, touched=True)
        place.world.stuck.clear()
        await made_good(place)


async def test_pods_that_will_not_leave_in_time_are_named_and_stay(opened: Opening) -> None:
    held = "default/web-1 (held by PodDisruptionBudget web)"
    async with opened() as place:
        await standing(place)
        worker = (await place.clusters.nodes("blue")).slots[1].slot
        place.world.pods[worker.name] = [held]
        asked = await place.ask_upgrade(AFTER, drain_seconds=1)
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        assert held in (await place.clusters.get("blue")).message
        await assert_true(place, touched=True)


async def test_nodes_that_are_upgraded_beside_one_that_fails_are_finished_and_no_other_begun(
    opened: Opening,
) -> None:
    async with opened() as place:
        await standing(place, workers=4)
        asked = await place.ask_upgrade(AFTER, at_once=2)
        _, *workers = [machine.named for machine in (await planned(place, asked)).machines]

        def fail(key: StepKey) -> DomainError | None:
            broken = (key.verb, key.subject) == ("kubernetes.cordon", workers[0])
            return Failed("broken on purpose") if broken else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        touched = {key.subject for key in map(StepKey.parse, place.trouble.seen)}
        assert touched & set(workers) == set(workers[:2])
        kubelets = {s.slot.name: s.kubelet for s in (await place.clusters.nodes("blue")).slots}
        assert [kubelets[name] for name in workers] == [BEFORE, AFTER, BEFORE, BEFORE]
        await assert_true(place, touched=True)
        await made_good(place)


async def test_an_upgrade_that_is_gone_on_with_keeps_the_copy_from_before_it(
    opened: Opening,
) -> None:
    async with opened() as place:
        await standing(place, control_planes=3)
        asked = await place.ask_upgrade(AFTER)
        second = (await planned(place, asked)).machines[1].named
        place.trouble.fail = lambda key: (
            Failed("broken on purpose") if (key.verb, key.subject) == (TOUCHES, second) else None
        )
        await place.carry_out(asked)
        kept = dict(place.world.snapshots)
        assert set(kept.values()) == {BEFORE}
        await made_good(place)
        assert place.world.snapshots == kept


async def test_an_upgrade_whose_plan_is_lost_is_no_success(opened: Opening) -> None:
    async with opened() as place:
        await standing(place)
        asked = await place.ask_upgrade(AFTER)
        plan = await place.operations.plan(asked.id)
        lost = plan.model_copy(update={"upgrade": None}).model_dump_json()
        async with place.database.session(writes=True) as session:
            rows = update(OperationRow).where(OperationRow.id == asked.id)
            await session.execute(rows.values(plan=lost))
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert operation.stage is Stage.FAILED
        assert operation.failure is not None
        assert "does not say what is to be upgraded" in operation.failure.message


async def test_a_pool_may_grow_between_two_versions(opened: Opening) -> None:
    async with opened() as place:
        await standing(place, control_planes=3)
        asked = await place.ask_upgrade(AFTER)
        lead, second, *_ = (machine.named for machine in (await planned(place, asked)).machines)
        place.trouble.fail = lambda key: (
            Failed("broken on purpose") if (key.verb, key.subject) == (TOUCHES, second) else None
        )
        await place.carry_out(asked)
        place.trouble.fail = lambda _: None
        grown = await place.ask_scale("w", 2)
        assert grown is not None
        await place.carry_out(grown)
        cluster, slots = await place.clusters.get("blue"), await place.clusters.nodes("blue")
        assert (cluster.phase, cluster.pending) == (Phase.DEGRADED, AFTER)
        there = {state.slot.name: state.kubelet for state in slots.slots}
        assert [name for name, kubelet in there.items() if kubelet == AFTER] == [lead]
        await assert_true(place, touched=True)
        await made_good(place)


async def test_an_upgrade_that_is_called_off_before_it_began_is_not_wanted_any_more(
    opened: Opening,
) -> None:
    async with opened() as place:
        await standing(place)
        asked = await place.ask_upgrade(AFTER)
        await place.steering.cancel(asked.id, "ann")
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.CANCELLED
        assert place.trouble.seen == []
        await assert_true(place, touched=False)
        await made_good(place)


async def test_by_the_strict_policy_pods_that_will_not_leave_end_the_upgrade(
    opened: Opening,
) -> None:
    async with opened() as place:
        await standing(place)
        worker = (await place.clusters.nodes("blue")).slots[1].slot.name
        place.world.pods[worker] = ["default/web-1"]
        asked = await place.ask_upgrade(AFTER, drain_seconds=1, drain_policy=DrainPolicy.STRICT)
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.FAILED
        assert "default/web-1" in (await place.clusters.get("blue")).message
        await assert_true(place, touched=True)
        place.world.pods.clear()
        await made_good(place)


async def test_a_node_that_somebody_closed_stays_closed(opened: Opening) -> None:
    async with opened() as place:
        await standing(place)
        worker = (await place.clusters.nodes("blue")).slots[1].slot.name
        place.world.cordoned.add(worker)
        place.world.shut.add(worker)
        await place.carry_out(await place.ask_upgrade(AFTER))
        cluster = await place.clusters.get("blue")
        assert (cluster.phase, cluster.version) == (Phase.RUNNING, AFTER)
        assert place.world.cordoned == {worker}
