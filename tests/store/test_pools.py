import asyncio
from datetime import timedelta

import pytest

from domain.cluster import Limits, Phase, PoolOrder
from domain.errors import (
    AlreadyExists,
    Conflict,
    DomainError,
    Exhausted,
    Failure,
    Invalid,
    NotFound,
)
from domain.machine import Label, Role, Sighting, SlotPhase
from domain.operation import Kind, Operation, OperationId, Reached, Stage
from domain.outline import keys, outline
from domain.pools import PoolSize
from domain.ports import Stock
from domain.repairs import Remedy
from store.rows import ClusterRow, OperationRow, PoolRow, SlotRow, now
from tests.store.desk import TERMS, Desk, ask
from tests.store.invariants import broken

LONG = timedelta(hours=1)


async def scale(
    desk: Desk, name: str = "pool", count: int = 1, key: str = "", **sizes: int
) -> Operation | None:
    wanted = [PoolSize(name=each, count=n) for each, n in {name: count, **sizes}.items()]
    return await desk.pools.request_scale("hello", wanted, TERMS, ask(key, method="Scale"))


async def add(desk: Desk, *names: str, count: int = 1, key: str = "") -> Operation:
    orders = [
        PoolOrder(name=name, count=count, instance_type="big", labels=(Label(name="a", value="b"),))
        for name in names
    ]
    return await desk.pools.request_add("hello", orders, TERMS, ask(key, method="Add"))


async def drop(desk: Desk, *names: str) -> Operation:
    return await desk.pools.request_drop("hello", names, TERMS, ask(method="Drop"))


async def pools(desk: Desk) -> dict[str, int]:
    """Every pool with what is wanted of it."""
    return {row.name: row.wanted for row in await desk.all(PoolRow)}


async def ended(desk: Desk, operation: OperationId, *, well: bool = True) -> Phase:
    """What the cluster is once the change has ended."""
    reached = (
        Reached.well(operation, None, "done")
        if well
        else Reached.badly(operation, None, Failure(kind="Failed", message="no"))
    )
    await desk.clusters.reach(reached)
    assert await broken(desk.database) == []
    return (await desk.clusters.get("hello")).phase


async def filled(desk: Desk, operation: Operation) -> None:
    """Every slot that is to be added has a Ready node."""
    plan = await desk.operations.plan(operation.id)
    assert plan.change is not None
    for slot in plan.change.adding:
        await desk.did(operation.id, "kubernetes.wait_node", slot.name)


async def test_a_new_pool_is_there_with_all_its_slots(desk: Desk) -> None:
    create = await desk.standing()
    operation = await add(desk, "gpu", count=2)
    assert (operation.kind, operation.subject) == (Kind.ADD_NODE_POOL, "cluster/hello")
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.operation) == (Phase.RECONCILING, operation.id)
    assert cluster.published
    nodes = (await desk.clusters.nodes("hello")).slots
    assert [state.slot.pool for state in nodes] == ["control-plane", "pool", "pool", "gpu", "gpu"]
    plan, created = await desk.operations.plan(operation.id), await desk.operations.plan(create.id)
    assert plan.change is not None
    assert plan.change.adding == tuple(state.slot for state in nodes[3:])
    assert plan.slots == tuple(state.slot for state in nodes)
    assert plan.change.through[0].slot == created.control_plane[0]
    assert plan.change.through[0].address == "10.0.0.1"
    for slot in plan.change.adding:
        assert (slot.instance_type, slot.role) == ("big", Role.WORKER)
        assert slot.labels == (Label(name="a", value="b"),)
        assert slot.public_key == created.slots[0].public_key
    assert await pools(desk) == {"pool": 2, "gpu": 2}
    [row] = await desk.all(OperationRow, id=operation.id)
    assert row.steps == len(keys(outline(operation.kind, plan)))
    await desk.operations.begin(operation.id)
    await filled(desk, operation)
    assert await ended(desk, operation.id) is Phase.RUNNING


async def test_nodes_are_told_pool_by_pool(desk: Desk) -> None:
    await desk.standing()
    operation = await add(desk, "gpu")
    await desk.operations.begin(operation.id)
    await filled(desk, operation)
    await ended(desk, operation.id)
    await scale(desk, "pool", 3)
    nodes = (await desk.clusters.nodes("hello")).slots
    assert [each.slot.pool for each in nodes] == ["control-plane", "pool", "pool", "pool", "gpu"]


async def test_a_repeat_under_the_same_request_id_is_the_same_operation(desk: Desk) -> None:
    await desk.standing()
    first = await add(desk, "gpu", key="key-1")
    assert await add(desk, "gpu", key="key-1") == first


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (lambda desk: add(desk, "gpu", "pool"), AlreadyExists),
        (lambda desk: scale(desk, "pool", 3, other=1), NotFound),
        (lambda desk: drop(desk, "pool", "other"), NotFound),
        (lambda desk: scale(desk, "pool", 12), Exhausted),
        (lambda desk: add(desk, "one", "two", count=5), Exhausted),
    ],
)
async def test_all_of_a_request_is_accepted_or_nothing(
    desk: Desk,
    asked: "object",
    kind: type[DomainError],
) -> None:
    create = await desk.standing()
    await desk.stocks.saw(Stock(machines=11, tagged={"big": 11}))
    before = await desk.clusters.nodes("hello")
    with pytest.raises(kind):
        await asked(desk)  # type: ignore[operator]
    assert await desk.clusters.nodes("hello") == before
    assert await pools(desk) == {"pool": 2}
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.operation) == (Phase.RUNNING, create.id)
    assert await broken(desk.database) == []


async def test_a_cluster_stays_within_its_limits(desk: Desk) -> None:
    await desk.standing()
    terms = TERMS.model_copy(update={"limits": Limits(machines=4)})
    sizes = [PoolSize(name="pool", count=4)]
    with pytest.raises(Invalid, match="5 machines in one cluster, at most 4"):
        await desk.pools.request_scale("hello", sizes, terms, ask())
    terms = TERMS.model_copy(update={"limits": Limits(pools=1)})
    with pytest.raises(Invalid, match="2 pools in one cluster, at most 1"):
        await desk.pools.request_add("hello", [PoolOrder(name="x", count=1)], terms, ask())


async def test_of_no_cluster_nothing_can_be_changed(desk: Desk) -> None:
    for asked in (add(desk, "gpu"), scale(desk), drop(desk, "pool")):
        with pytest.raises(NotFound, match="there is no cluster hello"):
            await asked


ACCEPTS = {
    Phase.PROVISIONING: False,
    Phase.RUNNING: True,
    Phase.RECONCILING: False,
    Phase.DEGRADED: True,
    Phase.ERROR: False,
    Phase.STOPPING: False,
}


@pytest.mark.parametrize("phase", ACCEPTS)
async def test_a_state_accepts_changes_of_pools_or_names_what_is_in_the_way(
    desk: Desk, phase: Phase
) -> None:
    create = await desk.standing()
    await desk.change(ClusterRow, {"phase": phase}, name="hello")
    for asked in (add(desk, "gpu"), scale(desk, "pool", 3), drop(desk, "pool")):
        if ACCEPTS[phase]:
            operation = await asked
            assert operation is not None
            await desk.operations.begin(operation.id)
            await ended(desk, operation.id, well=False)
            continue
        with pytest.raises(Conflict) as refused:
            await asked
        assert refused.value.facts == {"operation": create.id, "state": phase}
        broken_one = phase is Phase.ERROR
        assert refused.value.reason == ("CLUSTER_BROKEN" if broken_one else "CLUSTER_BUSY")
        assert "windlass" in refused.value.do
    assert ACCEPTS.keys() == set(Phase) - {Phase.GONE}


async def test_of_two_changes_at_once_one_is_refused(desk: Desk, other_desk: Desk) -> None:
    await desk.standing()
    answers = await asyncio.gather(
        scale(desk, "pool", 3), add(other_desk, "gpu"), return_exceptions=True
    )
    [accepted] = [each for each in answers if isinstance(each, Operation)]
    [refused] = [each for each in answers if isinstance(each, Conflict)]
    assert refused.facts["operation"] == accepted.id


async def test_the_present_size_starts_nothing_while_every_node_is_ready(desk: Desk) -> None:
    create = await desk.standing()
    assert await scale(desk, "pool", 2) is None
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.operation) == (Phase.RUNNING, create.id)


async def test_the_present_size_makes_good_what_is_missing(desk: Desk) -> None:
    await desk.standing()
    lacking = (await desk.clusters.nodes("hello")).slots[1].slot
    await desk.change(SlotRow, {"phase": SlotPhase.RELEASED}, name=lacking.name)
    operation = await scale(desk, "pool", 2)
    assert operation is not None
    plan = await desk.operations.plan(operation.id)
    assert plan.change is not None
    assert plan.change.adding == (lacking,)
    assert plan.change.retiring == ()


async def test_a_request_that_had_nothing_to_do_has_nothing_to_do_when_it_is_repeated(
    desk: Desk,
) -> None:
    await desk.standing()
    assert await scale(desk, key="once", count=2) is None
    lacking = (await desk.clusters.nodes("hello")).slots[1].slot
    await desk.change(SlotRow, {"phase": SlotPhase.RELEASED}, name=lacking.name)
    assert await scale(desk, key="once", count=2) is None
    three, other = [PoolSize(name="pool", count=3)], ask("once", digest="other", method="Scale")
    with pytest.raises(Invalid, match="used before"):
        await desk.pools.request_scale("hello", three, TERMS, other)
    assert await scale(desk, key="twice", count=2) is not None


@pytest.mark.parametrize("phase", [SlotPhase.JOINED, SlotPhase.LOST])
async def test_the_present_size_repairs_nodes_that_are_not_ready_for_too_long(
    desk: Desk, phase: SlotPhase
) -> None:
    await desk.standing()
    ill = (await desk.clusters.nodes("hello")).slots[1].slot
    await desk.change(SlotRow, {"phase": phase}, name=ill.name)
    assert await scale(desk, "pool", 2) is None, "it may come back by itself"
    await desk.change(SlotRow, {"changed": now() - LONG}, name=ill.name)
    repaired = await scale(desk, "pool", 2, key="once")
    assert repaired is not None
    assert repaired.kind is Kind.REPAIR_CLUSTER
    plan = await desk.operations.plan(repaired.id)
    assert plan.repair is not None
    assert [(each.named, each.remedy) for each in plan.repair.mending] == [
        (ill.name, Remedy.REVIVE)
    ]
    assert (await desk.clusters.get("hello")).phase is Phase.RECONCILING
    assert await scale(desk, "pool", 2, key="once") == repaired


async def test_the_present_size_of_one_pool_repairs_no_other(desk: Desk) -> None:
    await desk.standing()
    added = await add(desk, "gpu")
    await desk.operations.begin(added.id)
    await filled(desk, added)
    assert await ended(desk, added.id) is Phase.RUNNING
    sick = {"phase": SlotPhase.LOST, "changed": now() - LONG}
    await desk.change(SlotRow, sick, pool="gpu")
    assert await scale(desk, "pool", 2) is None
    repaired = await scale(desk, "gpu", 1)
    assert repaired is not None
    assert repaired.kind is Kind.REPAIR_CLUSTER


async def test_the_present_size_says_why_nothing_may_be_repaired(desk: Desk) -> None:
    await desk.standing()
    await desk.change(SlotRow, {"phase": SlotPhase.LOST, "changed": now() - LONG}, pool="pool")
    with pytest.raises(Conflict, match="2 nodes of 3 that are not Ready") as no:
        await scale(desk, "pool", 2)
    assert no.value.reason == "NOTHING_MENDABLE"
    assert await broken(desk.database) == []


async def test_a_size_that_is_wanted_again_is_kept_though_nothing_may_be_repaired(
    desk: Desk,
) -> None:
    await desk.standing()
    shrunk = await scale(desk, "pool", 0)
    assert shrunk is not None
    await desk.operations.begin(shrunk.id)
    assert await ended(desk, shrunk.id, well=False) is Phase.DEGRADED
    await desk.change(SlotRow, {"phase": SlotPhase.LOST, "changed": now() - LONG}, pool="pool")
    assert await scale(desk, "pool", 2) is None
    [pool] = await desk.all(PoolRow, name="pool")
    assert pool.wanted == 2
    with pytest.raises(Conflict, match="2 nodes of 3 that are not Ready"):
        await scale(desk, "pool", 2)


@pytest.mark.parametrize("phase", [SlotPhase.JOINED, SlotPhase.LOST])
async def test_a_node_that_is_not_ready_is_left_to_repairs(desk: Desk, phase: SlotPhase) -> None:
    await desk.standing()
    ill = (await desk.clusters.nodes("hello")).slots[1].slot
    await desk.change(SlotRow, {"phase": phase}, name=ill.name)
    assert await scale(desk, "pool", 2) is None
    grown = await scale(desk, "pool", 3)
    assert grown is not None
    plan = await desk.operations.plan(grown.id)
    assert plan.change is not None
    assert ill not in plan.change.adding
    assert len(plan.change.adding) == 1
    await desk.operations.begin(grown.id)
    await filled(desk, grown)
    assert await ended(desk, grown.id) is Phase.DEGRADED
    shrunk = await scale(desk, "pool", 2)
    assert shrunk is not None
    plan = await desk.operations.plan(shrunk.id)
    assert plan.change is not None
    assert [each.machine.slot for each in plan.change.retiring] == [ill]


async def test_without_a_ready_control_plane_no_pool_is_changed(desk: Desk) -> None:
    await desk.standing()
    lead = (await desk.clusters.nodes("hello")).slots[0].slot
    await desk.change(SlotRow, {"phase": SlotPhase.JOINED}, name=lead.name)
    await desk.change(ClusterRow, {"phase": Phase.DEGRADED}, name="hello")
    for asked in (add(desk, "gpu"), scale(desk, "pool", 3), drop(desk, "pool")):
        with pytest.raises(Conflict, match="no control plane of cluster hello is Ready") as no:
            await asked
        assert no.value.reason == "NO_READY_CONTROL_PLANE"
        assert "windlass cluster repair hello" in no.value.do
    assert await pools(desk) == {"pool": 2}
    assert await broken(desk.database) == []


async def test_the_newest_nodes_are_taken_away_and_their_slots_go_with_them(desk: Desk) -> None:
    await desk.standing(workers=3)
    _, first, *others = (await desk.clusters.nodes("hello")).slots
    operation = await scale(desk, "pool", 1)
    assert operation is not None
    plan = await desk.operations.plan(operation.id)
    assert plan.change is not None
    going = [each.machine.slot for each in plan.change.retiring]
    assert going == [each.slot for each in reversed(others)]
    assert all(each.works and each.machine.system_id for each in plan.change.retiring)
    assert plan.workers == (first.slot,)
    await desk.operations.begin(operation.id)
    for slot in going:
        await desk.did(operation.id, "kubernetes.cordon", slot.name)
        await desk.did(operation.id, "machines.release", slot.name)
    assert await ended(desk, operation.id) is Phase.RUNNING
    left = (await desk.clusters.nodes("hello")).slots[1:]
    assert [each.slot for each in left] == [first.slot]


async def test_a_node_that_could_not_be_taken_away_is_not_forgotten(desk: Desk) -> None:
    await desk.standing(workers=2)
    newest = (await desk.clusters.nodes("hello")).slots[-1].slot
    operation = await scale(desk, "pool", 1)
    assert operation is not None
    await desk.operations.begin(operation.id)
    await desk.mark(operation.id, "machines.release", newest.name, Sighting.BEGAN)
    assert await ended(desk, operation.id) is Phase.DEGRADED
    assert await pools(desk) == {"pool": 1}
    lacking = "pool has 2 places, 1 Ready node, and 1 wanted"
    assert f"done; {lacking}" in (await desk.clusters.get("hello")).message
    again = await scale(desk, "pool", 1)
    assert again is not None
    plan = await desk.operations.plan(again.id)
    assert plan.change is not None
    [retiring] = plan.change.retiring
    assert (retiring.machine.slot, retiring.works) == (newest, False)


async def test_a_node_that_was_being_emptied_may_stay_after_all(desk: Desk) -> None:
    await desk.standing(workers=2)
    newest = (await desk.clusters.nodes("hello")).slots[-1].slot
    await desk.change(SlotRow, {"phase": SlotPhase.DRAINING}, name=newest.name)
    operation = await scale(desk, "pool", 2)
    assert operation is not None
    plan = await desk.operations.plan(operation.id)
    assert plan.change is not None
    assert plan.change.readmitting == (newest,)
    await desk.operations.begin(operation.id)
    await desk.did(operation.id, "kubernetes.uncordon", newest.name)
    assert await ended(desk, operation.id) is Phase.RUNNING


async def test_a_deleted_pool_is_there_until_it_holds_nothing(desk: Desk) -> None:
    await desk.standing(workers=1)
    operation = await drop(desk, "pool", "pool")
    assert operation.kind is Kind.DELETE_NODE_POOL
    assert await pools(desk) == {"pool": 0}
    worker = (await desk.clusters.nodes("hello")).slots[-1].slot
    await desk.operations.begin(operation.id)
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    again = await drop(desk, "pool")
    await desk.operations.begin(again.id)
    await desk.did(again.id, "machines.release", worker.name)
    assert await ended(desk, again.id) is Phase.RUNNING
    assert await pools(desk) == {}
    assert len((await desk.clusters.nodes("hello")).slots) == 1


async def test_a_delete_knows_every_slot_that_changes_of_pools_made(desk: Desk) -> None:
    await desk.standing(workers=1)
    change = await add(desk, "gpu", count=2)
    await desk.operations.begin(change.id)
    slots = tuple(state.slot for state in (await desk.clusters.nodes("hello")).slots)
    deleted = await desk.delete()
    assert deleted.superseded == change.id
    plan = await desk.operations.plan(deleted.operation.id)
    assert (plan.slots, plan.change) == (slots, None)
    await desk.clusters.reach(Reached.well(change.id, None, "undone"))
    assert (await desk.operations.get(change.id)).stage is Stage.SUPERSEDED
    assert (await desk.clusters.get("hello")).phase is Phase.STOPPING
