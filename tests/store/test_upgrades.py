import asyncio
from datetime import UTC, datetime

import pytest

from domain.cluster import Phase, Upgrade
from domain.errors import Conflict, DomainError, Failure, NotFound
from domain.health import Tolerance
from domain.machine import Role, Sighting, SlotPhase
from domain.operation import Ask, Kind, Operation, OperationId, Reached, Stage
from domain.outline import RENEWAL, keys, outline
from domain.pools import PoolSize
from domain.releases import Catalogue, Release
from domain.repairs import Prudence
from domain.seen import Inside, MemberSeen, NodeSeen, Readiness, Sight, Tour
from domain.upgrades import TOUCHES, offered
from store.repairs import Repairs
from store.rows import ClusterRow, OperationRow, SlotRow, WatchRow
from store.watches import Watches
from tests.store.desk import BUILDING, RELEASE, TERMS, Desk, ask
from tests.store.invariants import broken

NEXT = "1.33.0"
CATALOGUE = Catalogue(
    releases=(
        *(Release(version=version, series="jammy") for version in ("1.31.4", "1.32.1", "1.32.4")),
        *(Release(version=NEXT, series=series) for series in ("noble", "jammy")),
        Release(version="1.34.1", series="jammy"),
    ),
    default="1.32.1",
)


async def upgrade(desk: Desk, version: str = NEXT, *, asked: Ask | None = None) -> Operation:
    asked = asked or ask(method="Upgrade")
    return await desk.upgrades.request("hello", version, CATALOGUE, BUILDING, asked)


async def begun(desk: Desk, version: str = NEXT) -> tuple[Operation, Upgrade]:
    operation = await upgrade(desk, version)
    await desk.operations.begin(operation.id)
    plan = await desk.operations.plan(operation.id)
    assert plan.upgrade is not None
    return operation, plan.upgrade


async def renewed(desk: Desk, operation: OperationId, *names: str, version: str = NEXT) -> None:
    """These nodes were upgraded step by step."""
    for name in names:
        for verb in RENEWAL[Role.WORKER]:
            runs = {"kubelet": version} if verb == "kubernetes.wait_version" else {}
            await desk.did(operation, verb, name, **runs)


async def ended(desk: Desk, operation: OperationId, *, well: bool = True) -> Phase:
    reached = (
        Reached.well(operation, None, "done")
        if well
        else Reached.badly(operation, None, Failure(kind="Failed", message="no"))
    )
    await desk.clusters.reach(reached)
    assert await broken(desk.database) == []
    return (await desk.clusters.get("hello")).phase


async def half_done(desk: Desk) -> list[str]:
    """A cluster of three control planes and two workers, of which two nodes are upgraded."""
    await desk.standing(control_planes=3)
    operation, planned = await begun(desk)
    names = [machine.named for machine in planned.machines]
    await renewed(desk, operation.id, *names[:2])
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    return names


async def test_an_upgrade_is_written_down_with_every_node_and_its_turn(desk: Desk) -> None:
    await desk.standing(control_planes=3)
    operation = await upgrade(desk)
    assert (operation.kind, operation.subject) == (Kind.UPGRADE_CLUSTER, "cluster/hello")
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.operation) == (Phase.RECONCILING, operation.id)
    assert (cluster.version, cluster.pending) == (RELEASE.version, NEXT)
    assert cluster.published
    accepted = f"upgrade 1.32.1->1.33.0: 0/5 nodes; accepted (op {operation.id})"
    assert cluster.message == accepted
    plan, nodes = await desk.operations.plan(operation.id), await desk.clusters.nodes("hello")
    assert plan.upgrade is not None
    assert plan.upgrade.release == Release(version=NEXT, series="jammy")
    assert [m.slot for m in plan.upgrade.machines] == [state.slot for state in nodes.slots]
    assert [machine.address for machine in plan.upgrade.working] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    ]
    assert plan.upgrade.leads
    assert not plan.upgrade.resumed
    [row] = await desk.all(OperationRow, id=operation.id)
    assert row.steps == len(keys(outline(operation.kind, plan)))


async def test_a_silent_member_of_etcd_is_in_the_way(desk: Desk) -> None:
    await desk.standing(control_planes=3)
    cluster = await desk.clusters.get("hello")
    last = (await desk.clusters.nodes("hello")).slots[2].slot.name
    watches = Watches(desk.database)
    assert await desk.upgrades.silent("default", "hello") == ()
    await watches.heard(cluster.uid)
    inside = Inside(members=(MemberSeen(name=last, answers=False),))
    await desk.change(WatchRow, {"inside": inside.model_dump_json()}, cluster=cluster.uid)
    assert await desk.upgrades.silent("default", "hello") == (last,)
    with pytest.raises(Conflict, match=f"{last} did not answer") as refused:
        await upgrade(desk)
    assert refused.value.reason == "ETCD_MEMBER_SILENT"


async def test_pools_have_their_turn_in_the_order_in_which_they_are_shown(desk: Desk) -> None:
    await desk.standing(workers=1)
    added = await desk.pools.request_scale("hello", [PoolSize(name="pool", count=2)], TERMS, ask())
    assert added is not None
    await desk.operations.begin(added.id)
    plan = await desk.operations.plan(added.id)
    assert plan.change is not None
    for slot in plan.change.adding:
        await desk.did(added.id, "kubernetes.wait_node", slot.name, kubelet=RELEASE.version)
    assert await ended(desk, added.id) is Phase.RUNNING
    _, planned = await begun(desk)
    shown = (await desk.clusters.nodes("hello")).slots
    assert [machine.slot for machine in planned.machines] == [state.slot for state in shown]
    assert [pool.name for pool in planned.pools] == ["pool"]


async def test_a_finished_upgrade_is_what_the_cluster_runs(desk: Desk) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    await renewed(desk, operation.id, *(machine.named for machine in planned.machines))
    assert await ended(desk, operation.id) is Phase.RUNNING
    cluster = await desk.clusters.get("hello")
    assert (cluster.version, cluster.pending) == (NEXT, "")
    nodes = (await desk.clusters.nodes("hello")).slots
    assert {state.slot.release.version for state in nodes} == {NEXT}
    assert {state.phase for state in nodes} == {SlotPhase.HEALTHY}
    with pytest.raises(Conflict, match="is already at") as refused:
        await upgrade(desk)
    assert refused.value.reason == "ALREADY_AT_VERSION"


async def test_a_half_done_upgrade_is_told_and_gone_on_with(desk: Desk) -> None:
    names = await half_done(desk)
    cluster = await desk.clusters.get("hello")
    assert (cluster.version, cluster.pending) == (RELEASE.version, NEXT)
    assert "control-plane has 2 of 3 Ready nodes at 1.33.0" in cluster.message
    assert "pool has 0 of 2 Ready nodes at 1.33.0" in cluster.message
    nodes = (await desk.clusters.nodes("hello")).slots
    assert offered(cluster, nodes, CATALOGUE) == [NEXT]
    for other in ("1.32.4", "1.34.1"):
        with pytest.raises(Conflict) as refused:
            await upgrade(desk, other)
        assert refused.value.reason == "UPGRADE_PENDING"
        assert refused.value.facts["pending"] == NEXT
    operation, planned = await begun(desk)
    assert [machine.named for machine in planned.machines] == names[2:]
    assert (planned.resumed, planned.leads, planned.done) == (True, False, 2)
    assert (
        "upgrade 1.32.1->1.33.0: 2/5 nodes; accepted" in (await desk.clusters.get("hello")).message
    )
    await renewed(desk, operation.id, *names[2:])
    assert await ended(desk, operation.id) is Phase.RUNNING
    assert (await desk.clusters.get("hello")).version == NEXT


@pytest.mark.parametrize("phase", [SlotPhase.JOINED, SlotPhase.DRAINING])
async def test_what_was_begun_is_gone_on_with_whatever_it_left_of_the_control_plane(
    desk: Desk, phase: SlotPhase
) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    lead = planned.control_plane[0].named
    await desk.did(operation.id, TOUCHES, lead)
    await desk.change(SlotRow, {"phase": phase}, name=lead)
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    _, again = await begun(desk)
    assert again.control_plane[0].named == lead
    assert (again.leads, again.working, again.forewarned) == (True, (), False)
    assert again.through == again.control_plane


async def test_an_upgrade_that_touched_nothing_is_not_wanted_any_more(desk: Desk) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    await desk.did(operation.id, "kubeadm.foresee", planned.control_plane[0].named)
    assert await ended(desk, operation.id, well=False) is Phase.RUNNING
    cluster = await desk.clusters.get("hello")
    assert (cluster.version, cluster.pending) == (RELEASE.version, "")
    assert (await upgrade(desk, "1.32.4")).kind is Kind.UPGRADE_CLUSTER


async def test_a_resumed_upgrade_that_touched_nothing_is_wanted_still(desk: Desk) -> None:
    await half_done(desk)
    operation, _ = await begun(desk)
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    assert (await desk.clusters.get("hello")).pending == NEXT


async def test_a_repeat_under_the_same_request_id_is_the_same_operation(desk: Desk) -> None:
    await desk.standing()
    first = await upgrade(desk, asked=ask("key-1", method="Upgrade"))
    assert await upgrade(desk, asked=ask("key-1", method="Upgrade")) == first


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.31.4", "DOWNGRADE"),
        ("1.34.1", "MINOR_VERSION_SKIPPED"),
        ("1.32.1", "ALREADY_AT_VERSION"),
    ],
)
async def test_what_is_refused_changes_nothing(desk: Desk, version: str, reason: str) -> None:
    create = await desk.standing()
    before = await desk.clusters.nodes("hello")
    with pytest.raises(Conflict) as refused:
        await upgrade(desk, version)
    assert refused.value.reason == reason
    assert refused.value.facts["state"] == "running"
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.operation, cluster.pending) == (Phase.RUNNING, create.id, "")
    assert await desk.clusters.nodes("hello") == before
    assert await broken(desk.database) == []


async def test_of_no_cluster_nothing_can_be_upgraded(desk: Desk) -> None:
    with pytest.raises(NotFound, match="there is no cluster hello"):
        await upgrade(desk)


ACCEPTS = {
    Phase.PROVISIONING: False,
    Phase.RUNNING: True,
    Phase.RECONCILING: False,
    Phase.DEGRADED: True,
    Phase.ERROR: False,
    Phase.STOPPING: False,
}


@pytest.mark.parametrize("phase", ACCEPTS)
async def test_a_state_accepts_an_upgrade_or_names_what_is_in_the_way(
    desk: Desk, phase: Phase
) -> None:
    create = await desk.standing()
    await desk.change(ClusterRow, {"phase": phase}, name="hello")
    if ACCEPTS[phase]:
        assert (await upgrade(desk)).stage is Stage.REQUESTED
        return
    with pytest.raises(Conflict) as refused:
        await upgrade(desk)
    assert refused.value.facts == {"operation": create.id, "state": phase}
    broken_one = phase is Phase.ERROR
    assert refused.value.reason == ("CLUSTER_BROKEN" if broken_one else "CLUSTER_BUSY")
    assert ACCEPTS.keys() == set(Phase) - {Phase.GONE}


async def test_a_degraded_cluster_needs_its_control_plane_for_an_upgrade(desk: Desk) -> None:
    await desk.standing(control_planes=3)
    lead = (await desk.clusters.nodes("hello")).slots[0].slot.name
    await desk.change(ClusterRow, {"phase": Phase.DEGRADED}, name="hello")
    await desk.change(SlotRow, {"phase": SlotPhase.JOINED}, name=lead)
    with pytest.raises(Conflict, match=f"{lead} is joined") as refused:
        await upgrade(desk)
    assert refused.value.reason == "CONTROL_PLANE_NOT_WHOLE"


async def test_of_two_upgrades_at_once_one_is_refused(desk: Desk, other_desk: Desk) -> None:
    await desk.standing()
    answers = await asyncio.gather(
        upgrade(desk), upgrade(other_desk, "1.32.4"), return_exceptions=True
    )
    [accepted] = [each for each in answers if isinstance(each, Operation)]
    [refused] = [each for each in answers if isinstance(each, DomainError)]
    assert refused.facts["operation"] == accepted.id


async def test_what_is_added_between_two_versions_joins_at_the_older(desk: Desk) -> None:
    names = await half_done(desk)
    await desk.change(SlotRow, {"phase": SlotPhase.RELEASED, "kubelet": ""}, name=names[-1])
    sizes = [PoolSize(name="pool", count=3)]
    scaled = await desk.pools.request_scale("hello", sizes, TERMS, ask())
    assert scaled is not None
    plan = await desk.operations.plan(scaled.id)
    assert plan.change is not None
    assert {slot.release.version for slot in plan.change.adding} == {RELEASE.version}
    assert len(plan.change.adding) == 2
    assert plan.upgrade is None
    await desk.operations.begin(scaled.id)
    for slot in plan.change.adding:
        await desk.did(scaled.id, "kubernetes.wait_node", slot.name, kubelet=RELEASE.version)
    assert await ended(desk, scaled.id) is Phase.DEGRADED
    _, planned = await begun(desk)
    assert {slot.name for slot in plan.change.adding} <= {m.named for m in planned.machines}


async def test_what_is_filled_once_the_control_plane_is_done_joins_at_the_new_one(
    desk: Desk,
) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    lead, first, second = (machine.named for machine in planned.machines)
    await renewed(desk, operation.id, lead)
    await desk.did(operation.id, TOUCHES, first)
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    await desk.change(SlotRow, {"phase": SlotPhase.RELEASED, "kubelet": ""}, name=second)
    filling = await desk.pools.request_scale(
        "hello", [PoolSize(name="pool", count=3)], TERMS, ask()
    )
    assert filling is not None
    plan = await desk.operations.plan(filling.id)
    assert plan.change is not None
    assert {slot.release.version for slot in plan.change.adding} == {NEXT}
    assert second in {slot.name for slot in plan.change.adding}
    nodes = (await desk.clusters.nodes("hello")).slots
    assert [each.slot for each in nodes if each.slot.release.version == RELEASE.version] == [
        planned.machines[1].slot
    ]
    assert {slot.release.version for slot in plan.workers} == {RELEASE.version, NEXT}


async def test_a_repair_leaves_a_half_done_upgrade_to_be_finished(desk: Desk) -> None:
    names = await half_done(desk)
    await desk.change(SlotRow, {"phase": SlotPhase.JOINED, "node": ""}, name=names[-1])
    repair = await Repairs(desk.database, Prudence()).request("hello", [names[-1]], ask())
    assert repair is not None
    plan = await desk.operations.plan(repair.id)
    assert (plan.upgrade, plan.change) == (None, None)
    [row] = await desk.all(OperationRow, id=repair.id)
    assert row.headline == ""
    await desk.operations.begin(repair.id)
    await desk.did(repair.id, "kubernetes.wait_return", names[-1], kubelet=RELEASE.version)
    assert await ended(desk, repair.id) is Phase.DEGRADED
    cluster = await desk.clusters.get("hello")
    assert (cluster.version, cluster.pending) == (RELEASE.version, NEXT)
    with pytest.raises(Conflict) as refused:
        await upgrade(desk, "1.32.4")
    assert refused.value.reason == "UPGRADE_PENDING"
    _, planned = await begun(desk)
    assert (planned.resumed, planned.done) == (True, 2)


async def test_taking_the_last_old_node_away_finishes_an_upgrade(desk: Desk) -> None:
    await desk.standing(workers=1)
    operation, planned = await begun(desk)
    lead, worker = (machine.named for machine in planned.machines)
    await renewed(desk, operation.id, lead)
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    scaled = await desk.pools.request_scale("hello", [PoolSize(name="pool", count=0)], TERMS, ask())
    assert scaled is not None
    await desk.operations.begin(scaled.id)
    await desk.did(scaled.id, "machines.release", worker)
    assert await ended(desk, scaled.id) is Phase.RUNNING
    cluster = await desk.clusters.get("hello")
    assert (cluster.version, cluster.pending) == (NEXT, "")


async def test_a_node_that_is_open_again_but_not_ready_is_not_said_to_be(desk: Desk) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    name = planned.control_plane[0].named

    async def phase() -> SlotPhase:
        return (await desk.clusters.nodes("hello")).slots[0].phase

    await desk.mark(operation.id, "kubernetes.wait_node", name, Sighting.BEGAN)
    await desk.mark(operation.id, "kubernetes.wait_node", name, Sighting.STUMBLED, final=True)
    assert await phase() is SlotPhase.HEALTHY, "one look that failed is no verdict"
    await desk.did(operation.id, "kubernetes.cordon", name)
    assert await phase() is SlotPhase.DRAINING
    await desk.mark(operation.id, "kubernetes.wait_node", name, Sighting.BEGAN, undo=True)
    await desk.mark(
        operation.id, "kubernetes.wait_node", name, Sighting.STUMBLED, undo=True, final=True
    )
    assert await phase() is SlotPhase.JOINED
    await desk.mark(operation.id, "kubernetes.uncordon", name, Sighting.ENDED, undo=True)
    assert await phase() is SlotPhase.JOINED
    await desk.mark(operation.id, "kubernetes.wait_version", name, Sighting.ENDED)
    assert await phase() is SlotPhase.HEALTHY
    await desk.did(operation.id, "kubernetes.cordon", name)
    for verb in ("kubernetes.wait_version", "kubernetes.wait_node"):
        await desk.mark(operation.id, verb, name, Sighting.ENDED, undo=True)
        assert await phase() is SlotPhase.DRAINING, "Ready, and closed still"
    await desk.mark(operation.id, "kubernetes.uncordon", name, Sighting.ENDED, undo=True, turn=2)
    assert await phase() is SlotPhase.HEALTHY


@pytest.mark.parametrize("phase", [SlotPhase.JOINED, SlotPhase.LOST, SlotPhase.RELEASED])
async def test_a_node_that_does_not_work_is_no_better_for_being_closed_and_opened(
    desk: Desk, phase: SlotPhase
) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    name = planned.control_plane[0].named
    await desk.change(SlotRow, {"phase": phase}, name=name)
    for undo, verb in ((False, "kubernetes.cordon"), (True, "kubernetes.uncordon")):
        await desk.mark(operation.id, verb, name, Sighting.ENDED, undo=undo)
        assert (await desk.clusters.nodes("hello")).slots[0].phase is phase


async def test_the_message_says_how_many_nodes_are_done_and_what_is_being_done(desk: Desk) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    lead, worker, _ = (machine.named for machine in planned.machines)
    await renewed(desk, operation.id, lead)
    said = Reached(operation=operation.id, note=f"{lead} runs it", headline=planned.headline(1))
    await desk.clusters.reach(said)
    headline = "upgrade 1.32.1->1.33.0: 1/3 nodes"
    message = (await desk.clusters.get("hello")).message
    assert message == f"{headline}; {lead} runs it (op {operation.id})"
    await desk.mark(operation.id, "kubernetes.drain", worker, Sighting.BEGAN)
    message = (await desk.clusters.get("hello")).message
    assert message == f"{headline}; kubernetes.drain {worker} began (op {operation.id})"
    await ended(desk, operation.id, well=False)
    assert (await desk.clusters.get("hello")).message.startswith(f"{headline}; no; ")


async def test_a_delete_knows_every_slot_of_a_cluster_between_two_versions(desk: Desk) -> None:
    await half_done(desk)
    change, _ = await begun(desk)
    slots = tuple(state.slot for state in (await desk.clusters.nodes("hello")).slots)
    deleted = await desk.delete()
    assert deleted.superseded == change.id
    plan = await desk.operations.plan(deleted.operation.id)
    assert (plan.slots, plan.upgrade) == (slots, None)
    await desk.clusters.reach(Reached.well(change.id, None, "undone"))
    assert (await desk.clusters.get("hello")).phase is Phase.STOPPING


async def test_an_upgrade_whose_last_node_is_late_is_finished_by_the_look_that_sees_it(
    desk: Desk,
) -> None:
    await desk.standing()
    operation, planned = await begun(desk)
    names = [machine.named for machine in planned.machines]
    await renewed(desk, operation.id, *names[:-1])
    assert await ended(desk, operation.id, well=False) is Phase.DEGRADED
    watches, cluster = Watches(desk.database), await desk.clusters.get("hello")
    for ready in (False, True):
        nodes = tuple(
            NodeSeen(
                name=name,
                kubelet=NEXT,
                readiness=Readiness.READY if ready or name != names[-1] else Readiness.NOT_READY,
            )
            for name in names
        )
        seen = {"taken": datetime.now(UTC), "nodes": nodes}
        sight = Sight.model_validate({"uid": cluster.uid, "operation": operation.id, **seen})
        assert await watches.record(Tour(uid=cluster.uid, sight=sight), Tolerance())
        cluster = await desk.clusters.get("hello")
        assert cluster.phase is (Phase.RUNNING if ready else Phase.DEGRADED)
        wanted = (NEXT, "") if ready else (RELEASE.version, NEXT)
        assert (cluster.version, cluster.pending) == wanted
    slots = (await desk.clusters.nodes("hello")).slots
    assert {state.slot.release for state in slots} == {Release(version=NEXT, series="jammy")}
    assert NEXT not in offered(cluster, slots, CATALOGUE)
    assert await broken(desk.database) == []
    assert (await upgrade(desk, "1.34.1")).kind is Kind.UPGRADE_CLUSTER
