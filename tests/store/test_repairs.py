"""Repairs asked for, proposed, and begun by themselves: what the rows say of them."""

import asyncio
from datetime import timedelta

import pytest

from domain.cluster import Phase
from domain.errors import Conflict, Failure, NotFound
from domain.machine import SlotPhase
from domain.operation import Cancelled, Kind, Operation, Reached, Stage
from domain.pools import PoolSize
from domain.quarantine import Terms
from domain.repairs import Policy, Prudence, Remedy
from domain.seen import Inside, MemberSeen
from store.plans import LARGEST_PLAN
from store.reasons import Reasons
from store.repairs import Repairs
from store.rows import ClusterRow, OperationRow, PoolRow, SlotRow, WatchRow, now
from store.watches import Watches
from tests.store.desk import RELEASE, TERMS, Desk, ask
from tests.store.invariants import broken
from tests.store.test_upgrades import NEXT, begun, ended, renewed

PRUDENCE = Prudence(patience_seconds=300)
LONG = timedelta(hours=1)


@pytest.fixture
def repairs(desk: Desk) -> Repairs:
    return Repairs(desk.database, PRUDENCE)


async def names(desk: Desk) -> list[str]:
    return [state.slot.name for state in (await desk.clusters.nodes("hello")).slots]


async def ill(desk: Desk, name: str, *, since: timedelta = LONG) -> None:
    values = {"phase": SlotPhase.JOINED, "changed": now() - since}
    await desk.change(SlotRow, values, name=name)


async def repair(repairs: Repairs, *nodes: str, key: str = "") -> Operation | None:
    return await repairs.request("hello", nodes, ask(key, method="Repair"))


async def uid(desk: Desk) -> str:
    return (await desk.clusters.get("hello")).uid


async def test_a_repair_freezes_what_is_to_be_mended(desk: Desk, repairs: Repairs) -> None:
    await desk.standing()
    master, first, _ = await names(desk)
    await ill(desk, first)
    operation = await repair(repairs, key="k")
    assert operation is not None
    assert (operation.kind, operation.subject) == (Kind.REPAIR_CLUSTER, "cluster/hello")
    plan = await desk.operations.plan(operation.id)
    assert plan.repair is not None
    assert [machine.named for machine in plan.repair.through] == [master]
    [mending] = plan.repair.mending
    assert (mending.named, mending.remedy) == (first, Remedy.REVIVE)
    assert plan.change is None
    assert (await desk.clusters.get("hello")).phase is Phase.RECONCILING
    assert await repair(repairs, key="k") == operation
    [row] = await desk.all(SlotRow, name=first)
    assert row.mends == 1
    assert row.mended is not None
    assert await broken(desk.database) == []
    with pytest.raises(Conflict, match="reconciling"):
        await repair(repairs)


async def test_where_every_node_works_nothing_is_started(desk: Desk, repairs: Repairs) -> None:
    create = await desk.standing()
    assert await repair(repairs, key="once") is None
    _, first, _ = await names(desk)
    await ill(desk, first)
    assert await repair(repairs, key="once") is None, "a repeat is answered as before"
    assert (await desk.clusters.get("hello")).operation == create.id


async def test_what_may_not_be_mended_is_refused_with_the_reason(
    desk: Desk, repairs: Repairs
) -> None:
    await desk.standing()
    _, first, _ = await names(desk)
    await ill(desk, first, since=timedelta(seconds=10))
    with pytest.raises(Conflict, match="may come back by itself") as refused:
        await repair(repairs)
    assert refused.value.reason == "NOTHING_MENDABLE"
    with pytest.raises(NotFound):
        await repair(repairs, first, "stranger")
    assert await repair(repairs, first) is not None


@pytest.mark.parametrize("well", [True, False])
async def test_after_a_repair_the_cluster_is_what_its_slots_say(
    desk: Desk, repairs: Repairs, well: bool
) -> None:
    await desk.standing()
    _, first, _ = await names(desk)
    await ill(desk, first)
    operation = await repair(repairs)
    assert operation is not None
    await desk.operations.begin(operation.id)
    if well:
        await desk.did(operation.id, "kubernetes.wait_return", first)
        await desk.clusters.reach(Reached.well(operation.id, None, "1 node mended"))
    else:
        failure = Failure(kind="Failed", message="no")
        await desk.clusters.reach(Reached.badly(operation.id, None, failure))
    cluster = await desk.clusters.get("hello")
    assert cluster.phase is (Phase.RUNNING if well else Phase.DEGRADED)
    assert cluster.published
    assert await broken(desk.database) == []


async def test_without_a_control_plane_the_cluster_is_in_error_and_may_be_repaired(
    desk: Desk, repairs: Repairs
) -> None:
    await desk.standing()
    master, *_ = await names(desk)
    await ill(desk, master)
    await desk.change(ClusterRow, {"phase": Phase.ERROR}, name="hello")
    operation = await repair(repairs)
    assert operation is not None
    plan = await desk.operations.plan(operation.id)
    assert plan.repair is not None
    [mending] = plan.repair.mending
    assert not mending.replaceable
    failure = Failure(kind="Failed", message="it does not come back")
    await desk.clusters.reach(Reached.badly(operation.id, None, failure))
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.published) == (Phase.ERROR, True)


async def test_the_policy_is_to_propose_and_can_be_set(desk: Desk, repairs: Repairs) -> None:
    await desk.standing()
    assert await repairs.policy("default", "hello") is Policy.PROPOSE
    assert await repairs.set_policy("default", "hello", Policy.OFF) is Policy.OFF
    assert await repairs.policy("default", "hello") is Policy.OFF
    for asking in (
        repairs.policy("default", "nobody"),
        repairs.set_policy("default", "nobody", Policy.OFF),
    ):
        with pytest.raises(NotFound):
            await asking


async def test_a_repair_is_proposed_in_the_message(desk: Desk, repairs: Repairs) -> None:
    await desk.standing()
    _, first, second = await names(desk)
    await ill(desk, first)
    for _ in range(2):
        assert await repairs.consider(await uid(desk)) is None
    said = (await desk.clusters.get("hello")).message
    assert said.count("proposed: windlass cluster repair hello") == 1
    assert f"{first}: restart its machine, else replace it" in said
    await repairs.set_policy("default", "hello", Policy.OFF)
    assert "proposed" not in (await desk.clusters.get("hello")).message
    await repairs.consider(await uid(desk))
    assert "proposed" not in (await desk.clusters.get("hello")).message
    await repairs.set_policy("default", "hello", Policy.PROPOSE)
    await ill(desk, second)
    await repairs.consider(await uid(desk))
    assert "2 nodes of 3 that are not Ready" in (await desk.clusters.get("hello")).message


async def test_a_repair_begins_by_itself_and_not_again_at_once(
    desk: Desk, repairs: Repairs
) -> None:
    await desk.standing()
    _, first, _ = await names(desk)
    await repairs.set_policy("default", "hello", Policy.AUTOMATIC)
    assert await repairs.consider(await uid(desk)) is None
    await ill(desk, first)
    operation = await repairs.consider(await uid(desk))
    assert operation is not None
    assert (operation.requester, operation.stage) == ("windlass", Stage.REQUESTED)
    assert await repairs.consider(await uid(desk)) is None, "while it runs"
    failure = Failure(kind="Failed", message="no")
    await desk.clusters.reach(Reached.badly(operation.id, None, failure))
    assert await repairs.consider(await uid(desk)) is None, "it was mended just now"
    assert "is not mended again by itself" in (await desk.clusters.get("hello")).message
    await desk.change(SlotRow, {"mended": now() - timedelta(hours=2)}, name=first)
    assert await repairs.consider(await uid(desk)) is not None
    assert len(await desk.all(OperationRow, kind=Kind.REPAIR_CLUSTER)) == 2


async def test_of_two_who_ask_at_once_one_is_heard(desk: Desk, repairs: Repairs) -> None:
    await desk.standing()
    _, first, _ = await names(desk)
    await ill(desk, first)
    await repairs.set_policy("default", "hello", Policy.AUTOMATIC)
    found = await asyncio.gather(
        *(repair(repairs) for _ in range(3)),
        *([repairs.consider(await uid(desk))] * 1),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Operation) for each in found) == 1
    assert await broken(desk.database) == []


async def test_a_place_that_was_taken_away_stays_empty(desk: Desk, repairs: Repairs) -> None:
    await desk.standing()
    _, first, _ = await names(desk)
    gone = {"phase": SlotPhase.RELEASING, "changed": now() - LONG}
    await desk.change(SlotRow, gone, name=first)
    await desk.change(PoolRow, {"wanted": 1})
    await repairs.set_policy("default", "hello", Policy.AUTOMATIC)
    assert await repairs.consider(await uid(desk)) is None
    assert "only a scale or a delete" in (await desk.clusters.get("hello")).message
    with pytest.raises(Conflict, match="only a scale or a delete"):
        await repair(repairs)


async def test_what_was_called_off_is_not_begun_again_by_itself(
    desk: Desk, repairs: Repairs
) -> None:
    await desk.standing()
    _, first, _ = await names(desk)
    await repairs.set_policy("default", "hello", Policy.AUTOMATIC)
    scale = await desk.pools.request_scale(
        "hello", [PoolSize(name="pool", count=3)], TERMS, ask(method="Scale")
    )
    assert scale is not None
    await desk.operations.begin(scale.id)
    await desk.steering.cancel(scale.id, "ann")
    await desk.clusters.reach(Reached.badly(scale.id, None, Cancelled.by("ann")))
    await desk.change(SlotRow, {"changed": now() - LONG}, phase=SlotPhase.PLANNED)
    assert await repairs.consider(await uid(desk)) is None
    assert "proposed: windlass cluster repair" in (await desk.clusters.get("hello")).message
    asked = await repair(repairs)
    assert asked is not None, "whoever asks gets it"
    await desk.clusters.reach(Reached.badly(asked.id, None, Failure(kind="Failed", message="no")))
    await ill(desk, first)
    assert await repairs.consider(await uid(desk)) is not None, "it was the repair that came last"


@pytest.mark.parametrize(
    ("phase", "release"),
    [
        (SlotPhase.LOST, NEXT),
        (SlotPhase.RELEASED, NEXT),
        (SlotPhase.FAILED, NEXT),
        (SlotPhase.DEPLOYED, RELEASE.version),
    ],
)
async def test_what_is_replaced_in_a_half_done_upgrade_joins_at_its_version(
    desk: Desk, repairs: Repairs, phase: SlotPhase, release: str
) -> None:
    await desk.standing()
    upgrading, planned = await begun(desk)
    master, first, _ = (machine.named for machine in planned.machines)
    await renewed(desk, upgrading.id, master)
    await ended(desk, upgrading.id, well=False)
    await desk.change(SlotRow, {"phase": phase, "changed": now() - LONG}, name=first)
    operation = await repair(repairs)
    assert operation is not None
    plan = await desk.operations.plan(operation.id)
    assert plan.repair is not None
    [mending] = plan.repair.mending
    assert mending.machine.slot.release.version == release
    assert mending.machine.slot in plan.workers
    states = {state.slot.name: state for state in (await desk.clusters.nodes("hello")).slots}
    assert states[first].slot == mending.machine.slot
    await ended(desk, operation.id, well=False)
    assert (await desk.clusters.get("hello")).pending == NEXT, "the upgrade is to be finished"


async def test_a_silent_member_of_etcd_is_known_to_whoever_repairs(
    desk: Desk, repairs: Repairs
) -> None:
    await desk.standing(control_planes=3)
    first, _, last, *_ = await names(desk)
    await ill(desk, last)
    members = tuple(
        MemberSeen(name=name, answers=name != first) for name in (await names(desk))[:3]
    )
    await Watches(desk.database).heard(await uid(desk))
    await desk.change(WatchRow, {"inside": Inside(members=members).model_dump_json()})
    with pytest.raises(Conflict, match="no majority without it"):
        await repair(repairs, last)
    await repairs.set_policy("default", "hello", Policy.AUTOMATIC)
    assert await repairs.consider(await uid(desk)) is None
    assert "no majority without it" in (await desk.clusters.get("hello")).message
    why = await Reasons(desk.database, Terms()).of("default", "hello")
    assert why.inside is not None
    assert why.inside.silent == (first,)


async def test_a_repair_that_cannot_be_recorded_is_told_and_fails_nobody(
    desk: Desk, repairs: Repairs
) -> None:
    create = await desk.standing()
    _, first, _ = await names(desk)
    await ill(desk, first)
    plan = await desk.operations.plan(create.id)
    large = plan.model_copy(update={"endpoint": "x" * LARGEST_PLAN})
    await desk.change(OperationRow, {"plan": large.model_dump_json()}, id=create.id)
    await repairs.set_policy("default", "hello", Policy.AUTOMATIC)
    assert await repairs.consider(await uid(desk)) is None
    cluster = await desk.clusters.get("hello")
    assert "a repair cannot be begun" in cluster.message
    assert (cluster.phase, cluster.operation) == (Phase.RUNNING, create.id)
    [row] = await desk.all(SlotRow, name=first)
    assert row.mends == 0


async def test_nobody_considers_a_cluster_that_is_gone(desk: Desk, repairs: Repairs) -> None:
    await desk.standing()
    identity = await uid(desk)
    await desk.deleted()
    assert await repairs.consider(identity) is None
    assert await repairs.consider("nobody") is None
