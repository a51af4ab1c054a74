"""Nodes that do not work are mended: every step may be the last, may run twice, and may be where
somebody calls the work off or deletes the cluster."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from domain.cluster import Phase
from domain.errors import DomainError, Failed
from domain.machine import Role, Slot, SlotPhase, SlotState
from domain.operation import Kind, Operation, Stage, StepKey
from domain.outline import keys, outline
from domain.repairs import BEYOND_REVIVING, Policy
from sim.world import MemoryWorld, Metal
from tests.workflows.conftest import Opening
from tests.workflows.test_pools import assert_true
from tests.workflows.yard import Trouble, Yard

Breaking = Callable[[Yard], Awaitable[list[Metal]]]


async def states(place: Yard, role: Role) -> list[SlotState]:
    nodes = (await place.clusters.nodes("blue")).slots
    return [state for state in nodes if state.slot.role is role]


def held(place: Yard, slot: Slot) -> Metal:
    """What fills a slot."""
    metal = place.world.held_by(slot.agent_name)
    assert metal is not None
    return metal


async def hang(place: Yard, role: Role, *, dead: bool = False) -> list[Metal]:
    """Let the last node of a role stop answering, and the rows know of it as a look would."""
    state = (await states(place, role))[-1]
    metal = held(place, state.slot)
    metal.powered, metal.dead = False, dead
    await place.saw(state.slot.name, SlotPhase.JOINED)
    return [metal]


async def lose(place: Yard, role: Role) -> list[Metal]:
    """Let there be no machine in the last slot of a role, as a creation leaves it that could not
    fill it."""
    slot = (await states(place, role))[-1].slot
    metal = held(place, slot)
    metal.powered = False
    uid = slot.cluster_uid
    if role is Role.CONTROL_PLANE:
        place.world.members[uid].remove(metal.system_id)
        name = (await place.clusters.get("blue")).endpoint
        led_to = place.world.names[name]
        place.world.names[name] = tuple(each for each in led_to if each != metal.address)
    place.world.nodes[uid].discard(slot.name)
    place.world.give_back(metal)
    await place.saw(slot.name, SlotPhase.RELEASED, system_id="")
    return []


CASES: dict[str, tuple[int, Breaking, int]] = {
    "worker restarted": (1, partial(hang, role=Role.WORKER), 3),
    "worker replaced": (1, partial(hang, role=Role.WORKER, dead=True), 12),
    "worker missing": (1, partial(lose, role=Role.WORKER), 8),
    "control plane restarted": (3, partial(hang, role=Role.CONTROL_PLANE), 4),
    "control plane replaced": (3, partial(hang, role=Role.CONTROL_PLANE, dead=True), 15),
    "control plane missing": (3, partial(lose, role=Role.CONTROL_PLANE), 11),
}
"""How many control planes there are, what breaks, and in how many steps that are no undos it is
mended."""

UP_TO = {"worker replaced": 5, "control plane replaced": 7}

EACH = pytest.mark.parametrize("case", CASES)
DATABASES = ("sqlite", "postgresql")
POINTS = pytest.mark.parametrize(
    ("migrated", "case", "step"),
    [
        (DATABASES[number % 2], case, step)
        for number, case in enumerate(CASES)
        for step in range(min(CASES[case][2], UP_TO.get(case, 99)))
    ],
    indirect=["migrated"],
)
"""Every step of every repair, each on one of the databases. What follows once a place is empty is
walked through where there was nothing to begin with."""


async def broken(place: Yard, case: str) -> Operation:
    """A cluster in which something does not work, and the repair that was asked for."""
    control_planes, breaking, _ = CASES[case]
    await place.create(control_planes, 2)
    assert (await place.clusters.get("blue")).phase is Phase.RUNNING
    await breaking(place)
    place.trouble.seen.clear()
    asked = await place.ask_repair()
    assert asked is not None
    return asked


async def assert_whole(place: Yard) -> None:
    """Everything is as it was asked for, and the endpoint leads to the control planes."""
    cluster = await place.clusters.get("blue")
    assert cluster.phase is Phase.RUNNING, cluster.message
    await assert_true(place)
    await assert_quorum(place)
    masters = await states(place, Role.CONTROL_PLANE)
    members = place.world.members[cluster.uid]
    assert sorted(members) == sorted(state.system_id for state in masters)
    assert set(place.world.names[cluster.endpoint]) == {state.address for state in masters}
    assert all(metal.powered for metal in place.world.machines if metal.owner)


async def assert_quorum(place: Yard) -> None:
    cluster = await place.clusters.get("blue")
    assert place.world.answers(cluster.uid)
    led_to = set(place.world.names[cluster.endpoint])
    lost = {m.address for m in place.world.machines if not m.node}
    assert not led_to & lost, "the endpoint leads to a machine that is no node"


async def made_good(place: Yard) -> None:
    """Whatever became of the repair, asking again brings what was wanted."""
    place.trouble.fail, place.trouble.at = lambda _: None, None
    for _ in range(3):
        if (again := await place.ask_repair()) is None:
            break
        await place.carry_out(again)
        await place.noticed()
    await assert_whole(place)
    await place.delete()
    assert place.world.leftovers == []


@EACH
async def test_a_repair_makes_the_cluster_whole(opened: Opening, case: str) -> None:
    async with opened() as place:
        asked = await broken(place, case)
        assert (await place.clusters.get("blue")).phase is Phase.RECONCILING
        await place.carry_out(asked)
        done = await place.operations.get(asked.id)
        assert done.stage is Stage.SUCCEEDED, done.failure
        assert len(place.trouble.seen) == CASES[case][2]
        foreseen = set(map(str, keys(outline(asked.kind, await place.operations.plan(asked.id)))))
        looks = {key for key in foreseen if key.startswith("kubernetes.check_node")}
        if "replaced" not in case:
            assert set(place.trouble.seen) == foreseen - looks  # which stumble: it is not Ready
        await assert_whole(place)
        assert await place.ask_repair() is None
        await made_good(place)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("reason", ["MAAS_DOWN", "MAAS_CREDENTIALS", "UNEXPECTED"])
async def test_a_node_whose_machine_could_not_be_asked_for_is_left_alone(
    opened: Opening, role: Role, reason: str
) -> None:
    async with opened() as place:
        await place.create(3, 2)
        [metal] = await hang(place, role)
        owner, node = metal.owner, metal.node
        asked = await place.ask_repair()
        assert asked is not None

        def fail(key: StepKey) -> DomainError | None:
            off = key.verb == "machines.power_off"
            return Failed("MAAS said no", reason=reason) if off else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        failure = (await place.operations.get(asked.id)).failure
        assert failure is not None
        assert "MAAS said no; it is left as it is" in failure.message
        assert (metal.owner, metal.node, metal.powered) == (owner, node, True)
        place.trouble.fail = lambda _: None
        again = await place.ask_repair(node)
        assert again is not None
        await place.carry_out(again)
        await assert_whole(place)
        assert (metal.owner, metal.node) == (owner, node)


@pytest.mark.parametrize("masters", [1, 3])
async def test_a_silent_api_costs_no_node_its_machine(opened: Opening, masters: int) -> None:
    async with opened() as place:
        await place.create(masters, 1)
        uid = (await place.clusters.get("blue")).uid
        [metal] = await hang(place, Role.WORKER)
        owner, node = metal.owner, metal.node
        asked = await place.ask_repair()
        assert asked is not None

        async def silence() -> None:
            place.world.unanswering.add(uid)

        place.trouble.when = lambda key: key.verb == "machines.power_on" and not key.undo
        place.trouble.then = silence
        await place.carry_out(asked)
        failure = (await place.operations.get(asked.id)).failure
        assert failure is not None
        assert f"it is not known whether node {node} is Ready" in failure.message
        assert (metal.owner, metal.node, metal.powered) == (owner, node, True)
        place.world.unanswering.clear()
        again = await place.ask_repair(node)
        assert again is not None
        await place.carry_out(again)
        await assert_whole(place)
        assert (metal.owner, metal.node, metal.power_cycles) == (owner, node, 1)


@pytest.mark.parametrize("reason", sorted(BEYOND_REVIVING - {"NODE_NOT_READY"}))
async def test_a_machine_that_cannot_be_restarted_is_replaced(opened: Opening, reason: str) -> None:
    async with opened() as place:
        await place.create(1, 1)
        [metal] = await hang(place, Role.WORKER)
        asked = await place.ask_repair()
        assert asked is not None

        def fail(key: StepKey) -> DomainError | None:
            off = key.verb == "machines.power_off"
            return Failed("it is past that", reason=reason) if off else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        assert not metal.owner
        await assert_whole(place)


async def test_a_node_that_is_named_and_works_is_left_alone(opened: Opening) -> None:
    async with opened() as place:
        await place.create(3, 2)
        before = [metal.power_cycles for metal in place.world.machines]
        nodes = [state.slot.name for state in (await place.clusters.nodes("blue")).slots]
        asked = await place.ask_repair(nodes[1], nodes[3])
        assert asked is not None
        await place.carry_out(asked)
        assert [metal.power_cycles for metal in place.world.machines] == before
        assert "0 nodes mended; Ready without us" in (await place.clusters.get("blue")).message
        await assert_whole(place)


async def test_the_only_control_plane_is_looked_at_before_it_is_restarted(opened: Opening) -> None:
    async with opened() as place:
        await place.create(1, 1)
        [master] = await states(place, Role.CONTROL_PLANE)
        metal = held(place, master.slot)
        for is_back in (True, False):
            before = metal.power_cycles
            metal.powered = is_back
            await place.saw(master.slot.name, SlotPhase.JOINED)
            asked = await place.ask_repair()
            assert asked is not None
            await place.carry_out(asked)
            assert (metal.power_cycles > before) is not is_back
            await assert_whole(place)


async def test_a_cluster_that_may_heals_by_itself(opened: Opening) -> None:
    async with opened() as place:
        await place.create(3, 2)
        await place.repairs.set_policy("default", "blue", Policy.AUTOMATIC)
        await place.monitor()
        for role in Role:
            held(place, (await states(place, role))[-1].slot).powered = False
        for _ in Role:  # what is not seen yet when the first repair begins is the next one's
            await place.turns(Phase.RECONCILING)
            [latest] = await place.operations.page(size=1)
            assert (latest.kind, latest.requester) == (Kind.REPAIR_CLUSTER, "windlass")
            await place.carry_out(latest)
            if (await place.clusters.get("blue")).phase is Phase.RUNNING:
                break
        await place.turns(Phase.RUNNING)
        await assert_whole(place)
        await place.delete()


@EACH
async def test_running_every_step_twice_changes_nothing(opened: Opening, case: str) -> None:
    async with opened(trouble=Trouble(repeat=True)) as place:
        asked = await broken(place, case)
        await place.carry_out(asked)
        await assert_whole(place)
        await made_good(place)


@POINTS
async def test_failing_anywhere_leaves_what_can_be_mended(
    opened: Opening, case: str, step: int
) -> None:
    async with opened(world=MemoryWorld.of(16)) as place:
        asked = await broken(place, case)
        reached: list[StepKey] = []

        def fail(key: StepKey) -> DomainError | None:
            if key.undo:
                return None
            if key not in reached:
                reached.append(key)
            return Failed("broken on purpose") if reached.index(key) == step else None

        place.trouble.fail = fail
        await place.carry_out(asked)
        assert place.trouble.fired, "never reached"
        assert (await place.operations.get(asked.id)).ended is not None
        assert not place.world.cordoned
        await assert_quorum(place)
        await made_good(place)


@POINTS
async def test_cancelling_anywhere_leaves_what_can_be_mended(
    opened: Opening, case: str, step: int
) -> None:
    async with opened() as place:
        asked = await broken(place, case)
        place.trouble.at, place.trouble.then = step, partial(place.cancel, asked.id)
        await place.carry_out(asked)
        operation = await place.operations.get(asked.id)
        assert place.trouble.fired, "never reached"
        assert (operation.stage, operation.ended is not None) == (Stage.CANCELLED, True)
        assert all(metal.powered for metal in place.world.machines if metal.owner)
        assert not place.world.cordoned
        await assert_quorum(place)
        await made_good(place)


@POINTS
async def test_a_delete_takes_over_anywhere(opened: Opening, case: str, step: int) -> None:
    async with opened() as place:
        asked = await broken(place, case)

        async def delete() -> None:
            deleted = await place.ask_delete()
            assert deleted.superseded == asked.id
            await place.start(deleted.operation)

        place.trouble.at, place.trouble.then = step, delete
        await place.carry_out(asked)
        assert place.trouble.fired, "never reached"
        deleting = (await place.operations.page(size=1))[0]
        await place.finish(deleting.id)
        assert await place.blue() is None
        assert place.world.leftovers == []


async def test_a_machine_that_etcd_still_counts_is_kept_when_the_repair_is_called_off(
    opened: Opening,
) -> None:
    async with opened() as place:
        asked = await broken(place, "control plane replaced")
        uid = (await place.clusters.get("blue")).uid
        members, owners = list(place.world.members[uid]), place.world.owners
        nodes = set(place.world.nodes[uid])

        def fail(key: StepKey) -> DomainError | None:
            if key.verb != "kubeadm.leave":
                return None
            place.world.members[uid][:] = members
            return Failed("etcd lets nobody go")

        place.trouble.fail = fail
        place.trouble.when = lambda key: key.verb == "kubeadm.leave"
        place.trouble.then = partial(place.cancel, asked.id)
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.CANCELLED
        assert place.world.owners == owners
        assert place.world.nodes[uid] == nodes
        place.trouble.when = lambda _: False
        await made_good(place)


async def test_a_control_plane_that_joined_and_cannot_leave_is_kept_when_called_off(
    opened: Opening,
) -> None:
    async with opened() as place:
        asked = await broken(place, "control plane missing")
        uid = (await place.clusters.get("blue")).uid
        counted: list[str] = []

        def fail(key: StepKey) -> DomainError | None:
            if key.verb != "kubeadm.leave" or not key.undo:
                return None
            place.world.members[uid][:] = counted
            return Failed("etcd lets nobody go")

        async def cancel() -> None:
            counted.extend(place.world.members[uid])
            await place.cancel(asked.id)

        place.trouble.fail = fail
        place.trouble.when = lambda key: key.verb == "kubeadm.join"
        place.trouble.then = cancel
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.CANCELLED
        assert len(counted) == 3
        assert place.world.members[uid] == counted
        assert place.world.dead_members(uid) == []
        assert not place.world.cordoned
        place.trouble.when = lambda _: False
        await made_good(place)
