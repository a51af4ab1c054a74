"""What is seen of a cluster gets into its rows, and never past an operation."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.cluster import Phase
from domain.errors import Failure
from domain.health import Tolerance, leading
from domain.machine import Sighting, SlotPhase, SlotState
from domain.operation import OperationId, Reached
from domain.pools import PoolSize
from domain.quarantine import Terms
from domain.releases import Catalogue, Release
from domain.repairs import Prudence
from domain.seen import Inside, MachineSeen, MemberSeen, NodeSeen, Readiness, Sight, Tour
from domain.why import explain
from store.engine import Database
from store.reasons import Reasons
from store.rows import ClusterRow, SlotRow, WatchRow
from store.watches import Watches
from tests.store.desk import BUILDING, RELEASE, TERMS, Desk, ask

TOLERANCE = Tolerance()
NEXT = Release(version="1.32.4", series="jammy")
OFFERED = Catalogue(releases=(RELEASE, NEXT), default=RELEASE.version)


@pytest.fixture
def watches(desk: Desk) -> Watches:
    return Watches(desk.database)


async def uid(desk: Desk) -> str:
    return (await desk.clusters.get("hello")).uid


async def slots(desk: Desk) -> tuple[SlotState, ...]:
    return (await desk.clusters.nodes("hello")).slots


async def look(desk: Desk, **more: Any) -> Sight:
    """A look at which every node is Ready, but for what is said."""
    cluster = await desk.clusters.get("hello")
    worse: dict[str, Readiness] = more.pop("worse", {})
    nodes = tuple(
        NodeSeen(
            name=state.slot.name,
            readiness=worse.get(state.slot.name, Readiness.READY),
            kubelet=RELEASE.version,
        )
        for state in await slots(desk)
    )
    known: dict[str, Any] = {"taken": datetime.now(UTC), "operation": cluster.operation}
    return Sight(**{"uid": cluster.uid, "nodes": nodes} | known | more)


async def record(watches: Watches, sight: Sight) -> bool:
    return await watches.record(Tour(uid=sight.uid, sight=sight), TOLERANCE)


async def test_while_an_operation_waits_to_be_approved_nodes_are_looked_at_and_told_of(
    desk: Desk, watches: Watches
) -> None:
    await desk.standing()
    asked = ask(method="Upgrade").model_copy(update={"approve_each": "pool"})
    operation = await desk.upgrades.request("hello", NEXT.version, OFFERED, BUILDING, asked)
    await desk.operations.begin(operation.id)
    identity, name = await uid(desk), (await slots(desk))[1].slot.name
    known = await watches.watched(identity)
    assert known is not None
    assert not known.judged
    await desk.steering.arrive(operation.id, "pool w", timedelta(hours=1))
    known = await watches.watched(identity)
    assert known is not None
    assert known.judged
    assert await record(watches, await look(desk, worse={name: Readiness.UNKNOWN}))
    assert (await slots(desk))[1].phase is SlotPhase.LOST
    cluster = await desk.clusters.get("hello")
    assert cluster.phase is Phase.RECONCILING
    assert f"{name} is lost" in cluster.message
    assert "runs 1.32.1" not in cluster.message
    assert "waits until" in cluster.message
    await desk.steering.approve(operation.id, "pool w", "ann")
    assert "is lost" not in (await desk.clusters.get("hello")).message
    assert await record(watches, await look(desk))
    assert (await slots(desk))[1].phase is SlotPhase.LOST, "the operation has the say again"


async def test_while_an_operation_is_paused_and_does_nothing_nodes_are_looked_at(
    desk: Desk, watches: Watches
) -> None:
    await desk.standing()
    operation = await desk.upgrades.request("hello", NEXT.version, OFFERED, BUILDING, ask())
    await desk.operations.begin(operation.id)
    name = (await slots(desk))[1].slot.name
    await desk.mark(operation.id, "kubernetes.drain", name, Sighting.BEGAN)
    await desk.steering.pause(operation.id, "ann")
    known = await watches.watched(await uid(desk))
    assert known is not None
    assert not known.judged, "a step is under way"
    await desk.mark(operation.id, "kubernetes.drain", name, Sighting.ENDED)
    known = await watches.watched(await uid(desk))
    assert known is not None
    assert known.judged
    assert leading(known, known.finding) is None, "that is the operation's"
    assert await record(watches, await look(desk, worse={name: Readiness.UNKNOWN}))
    cluster = await desk.clusters.get("hello")
    assert cluster.phase is Phase.RECONCILING
    assert f"{name} is lost" in cluster.message
    await desk.steering.resume(operation.id, "ann")
    assert "is lost" not in (await desk.clusters.get("hello")).message
    assert not (await watches.watched(await uid(desk)) or known).judged


async def test_a_node_that_is_lost_is_in_the_rows_and_the_cluster_is_degraded(
    desk: Desk, watches: Watches
) -> None:
    await desk.standing()
    name = (await slots(desk))[1].slot.name
    assert await record(watches, await look(desk, worse={name: Readiness.UNKNOWN}))
    cluster = await desk.clusters.get("hello")
    assert cluster.phase is Phase.DEGRADED
    assert cluster.message.startswith(f"{name} is lost; create: ready (op ")
    state = (await slots(desk))[1]
    assert (state.phase, state.kubelet) == (SlotPhase.LOST, RELEASE.version)
    assert state.node is not None
    assert state.node.readiness is Readiness.UNKNOWN
    assert await record(watches, await look(desk))
    cluster = await desk.clusters.get("hello")
    assert cluster.phase is Phase.RUNNING
    assert cluster.message.startswith("create: ready (op ")
    assert {state.phase for state in await slots(desk)} == {SlotPhase.HEALTHY}


async def test_what_was_written_is_read_back_as_it_was_found(desk: Desk, watches: Watches) -> None:
    """Or the next look would take it for news again, and so for ever."""
    await desk.standing()
    first, other, _ = await slots(desk)
    sight = await look(
        desk,
        worse={other.slot.name: Readiness.NOT_READY},
        machines=(
            MachineSeen(slot=first.slot.name, system_id="m1", status="Deployed", power="on"),
        ),
        inside=Inside(
            members=(MemberSeen(name=first.slot.name, answers=True),),
            expires=datetime.now(UTC) + timedelta(days=3),
            expires_on=first.slot.name,
        ),
    )
    assert await record(watches, sight)
    before = await watches.watched(await uid(desk))
    assert await record(watches, sight)
    after = await watches.watched(await uid(desk))
    assert before is not None
    assert after == before
    assert "certificates of" in after.finding.trouble
    assert after.confirmed == sight.taken


async def test_an_api_that_gives_no_answer_is_an_error_after_the_limit_and_comes_back(
    desk: Desk, watches: Watches
) -> None:
    await desk.standing()
    began = datetime.now(UTC)
    for seconds, phase in ((0, Phase.RUNNING), (60, Phase.RUNNING), (121, Phase.ERROR)):
        taken = began + timedelta(seconds=seconds)
        sight = await look(desk, unanswered="connection refused", nodes=None, taken=taken)
        assert await record(watches, sight)
        assert (await desk.clusters.get("hello")).phase is phase
    assert "the API has given no answer since" in (await desk.clusters.get("hello")).message
    assert await record(watches, await look(desk))
    assert (await desk.clusters.get("hello")).phase is Phase.RUNNING


async def test_why_status_and_nodes_agree_about_a_silent_api(
    desk: Desk, watches: Watches, database: Database
) -> None:
    """From the first look that got no answer, and until one gets it."""
    reasons = Reasons(database, Terms())
    await desk.standing()
    sight = await look(desk, unanswered="connection refused", nodes=None)
    assert await record(watches, sight)
    message = (await desk.clusters.get("hello")).message
    assert "the API has given no answer since" in message
    assert {state.phase for state in await slots(desk)} == {SlotPhase.LOST}
    top, *_ = explain(await reasons.of("default", "hello"), Prudence(), datetime.now(UTC)).causes
    assert "may not be usable: the API has given no answer since" in top.says
    assert await record(watches, await look(desk))
    assert {state.phase for state in await slots(desk)} == {SlotPhase.HEALTHY}
    reading = explain(await reasons.of("default", "hello"), Prudence(), datetime.now(UTC))
    assert "its API answers" in reading.causes[0].says
    assert not reading.advice


async def test_a_change_accepted_after_the_look_has_the_say(desk: Desk, watches: Watches) -> None:
    await desk.standing()
    sight = await look(desk, worse={(await slots(desk))[1].slot.name: Readiness.UNKNOWN})
    asked = await desk.pools.request_scale("hello", [PoolSize(name="pool", count=3)], TERMS, ask())
    assert asked is not None
    before = await desk.clusters.get("hello"), await slots(desk)
    assert await record(watches, sight), "there still is a cluster to look at"
    assert (await desk.clusters.get("hello"), await slots(desk)) == before
    await desk.operations.begin(asked.id)
    await desk.clusters.reach(Reached.well(asked.id, None, "done"))
    before = await desk.clusters.get("hello"), await slots(desk)
    assert await record(watches, sight), "old news: a change has begun and ended since"
    assert (await desk.clusters.get("hello"), await slots(desk)) == before


async def test_a_change_and_a_record_at_the_same_time_come_one_after_the_other(
    desk: Desk, other_desk: Desk
) -> None:
    await desk.standing()
    watches = Watches(other_desk.database)
    sight = await look(desk, worse={(await slots(desk))[1].slot.name: Readiness.UNKNOWN})
    sizes = [PoolSize(name="pool", count=3)]
    asked, goes_on = await asyncio.gather(
        desk.pools.request_scale("hello", sizes, TERMS, ask()), record(watches, sight)
    )
    assert asked is not None
    assert goes_on
    assert (await desk.clusters.get("hello")).phase is Phase.RECONCILING


@pytest.mark.parametrize(
    ("verb", "phase"),
    [("kubernetes.label", Phase.DEGRADED), ("kubernetes.delete_node", Phase.ERROR)],
)
async def test_a_silence_goes_on_through_an_operation_that_the_api_did_not_answer(
    desk: Desk, watches: Watches, verb: str, phase: Phase
) -> None:
    await desk.standing()
    hours_ago = datetime.now(UTC) - timedelta(hours=2)
    silence = await look(desk, unanswered="refused", nodes=None, taken=hours_ago)
    assert await record(watches, silence)
    asked = await desk.pools.request_scale("hello", [PoolSize(name="pool", count=3)], TERMS, ask())
    assert asked is not None
    await desk.operations.begin(asked.id)
    await desk.did(asked.id, verb, (await slots(desk))[1].slot.name)
    failure = Failure(kind="Failed", message="no metal")
    await desk.clusters.reach(Reached.badly(asked.id, None, failure))
    assert "no answer" not in (await desk.clusters.get("hello")).message, "of what was seen before"
    assert await record(watches, await look(desk, unanswered="refused", nodes=None))
    assert (await desk.clusters.get("hello")).phase is phase


async def test_a_cluster_that_stops_or_never_came_up_is_not_looked_at(
    desk: Desk, watches: Watches
) -> None:
    operation = await desk.creating()
    nobody = Tour(uid=await uid(desk))
    assert not await watches.record(nobody, TOLERANCE)
    assert await watches.unheard(0) == []
    await desk.clusters.reach(
        Reached.badly(operation.id, Phase.ERROR, Failure(kind="Failed", message="no metal"))
    )
    assert not await watches.record(nobody, TOLERANCE)
    assert await watches.unheard(0) == []
    await desk.deleted()
    assert not await watches.record(nobody, TOLERANCE)
    assert not await watches.record(Tour(uid="never-was"), TOLERANCE)
    assert await desk.all(WatchRow) == []


async def test_a_tour_without_news_writes_when_it_was_so_and_nothing_else(
    desk: Desk, watches: Watches
) -> None:
    await desk.standing()
    cluster, nodes = await desk.all(ClusterRow), await desk.all(SlotRow)
    moment = datetime.now(UTC)
    told = Tour(uid=await uid(desk), confirmed=moment, inspected=moment)
    assert await watches.record(told, TOLERANCE)
    [watch] = await desk.all(WatchRow)
    assert (watch.confirmed, watch.inspected) == (moment, moment)
    for before, after in ((cluster, await desk.all(ClusterRow)), (nodes, await desk.all(SlotRow))):
        assert [row.changed for row in after] == [row.changed for row in before]


async def test_a_cluster_without_a_monitor_is_found_until_one_is_heard_of(
    desk: Desk, watches: Watches
) -> None:
    await desk.standing()
    assert await watches.unheard(900) == [await uid(desk)]
    await watches.heard(await uid(desk))
    assert await watches.unheard(900) == []
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    await desk.change(WatchRow, {"heard": long_ago})
    assert await watches.unheard(900) == [await uid(desk)]
    assert await watches.record(Tour(uid=await uid(desk)), TOLERANCE)
    assert await watches.unheard(900) == []


async def test_what_is_known_of_many_clusters_is_read_together(
    desk: Desk, watches: Watches
) -> None:
    for name in ("hello", "other"):
        await desk.standing(name)
    uids = [cluster.uid for cluster in await desk.clusters.all()]
    found = await asyncio.gather(*map(watches.watched, [*uids, "never-was"]))
    assert [each.name if each else None for each in found] == ["hello", "other", None]
    first = found[0]
    assert first is not None
    assert first.judged
    assert dict(first.wanted) == {"pool": 2}
    assert len(first.finding.slots) == 3
    assert first.operation == OperationId((await desk.clusters.get("hello")).operation)


async def test_a_machine_given_back_is_not_remembered(desk: Desk, watches: Watches) -> None:
    operation = await desk.standing()
    name = (await slots(desk))[1].slot.name
    gone = MachineSeen(slot=name, system_id="m2", status="Ready", ours=False)
    assert await record(watches, await look(desk, machines=(gone,)))
    assert (await slots(desk))[1].machine == gone
    asked = await desk.pools.request_scale("hello", [PoolSize(name="pool", count=1)], TERMS, ask())
    assert asked is not None
    assert asked.id != operation.id
    await desk.operations.begin(asked.id)
    await desk.did(asked.id, "machines.release", name)
    state = next(state for state in await slots(desk) if state.slot.name == name)
    assert state.machine is None
    assert state.node is None
