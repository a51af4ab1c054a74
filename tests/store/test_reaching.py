import asyncio

import pytest

from domain.cluster import Phase
from domain.errors import Conflict, Failure, NotFound
from domain.machine import Sighting
from domain.operation import Cancelled, OperationId, Reached, Stage
from tests.store.desk import Desk, whole


async def test_a_workflow_books_where_it_stands(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.clusters.reach(Reached(operation=operation.id, note="the API answers"))
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.published) == (Phase.PROVISIONING, False)
    assert cluster.message == f"create: the API answers (op {operation.id})"
    await desk.clusters.reach(
        Reached(operation=operation.id, phase=Phase.DEGRADED, published=True, note="a node lacks")
    )
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.published) == (Phase.DEGRADED, True)
    assert (await desk.operations.get(operation.id)).ended is None


async def test_what_is_published_stays_so(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.clusters.reach(Reached(operation=operation.id, published=True))
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    assert (await desk.clusters.get("hello")).published


@pytest.mark.parametrize("failure", [Failure(kind="Failed", message="no"), Cancelled.by("ann")])
async def test_a_create_that_was_undone_takes_its_kubeconfig_back(
    desk: Desk, failure: Failure
) -> None:
    """Its machines are somebody else's by now."""
    operation = await desk.creating()
    await desk.clusters.reach(Reached(operation=operation.id, published=True))
    await desk.clusters.reach(Reached.badly(operation.id, Phase.ERROR, failure))
    assert not (await desk.clusters.get("hello")).published


async def test_a_create_whose_workflow_is_lost_keeps_its_kubeconfig(desk: Desk) -> None:
    """Its machines are still there, and somebody may want to look."""
    operation = await desk.creating()
    await desk.clusters.reach(Reached(operation=operation.id, published=True))
    failure = Failure(kind="Failed", message="its workflow is terminated")
    await desk.clusters.reach(Reached.badly(operation.id, Phase.ERROR, failure, undone=False))
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.published) == (Phase.ERROR, True)


async def test_a_good_end_is_the_last_line(desk: Desk) -> None:
    operation = await desk.running()
    ended = await desk.operations.get(operation.id)
    assert (ended.stage, ended.failure) == (Stage.SUCCEEDED, None)
    lines = await desk.lines(operation.id)
    assert whole(lines)
    assert (lines[-1].note, lines[-1].stage, lines[-1].last) == ("ready", Stage.SUCCEEDED, True)
    assert [line.last for line in lines[:-1]] == [False] * (len(lines) - 1)


async def test_a_bad_end_says_what_went_wrong(desk: Desk) -> None:
    failure = Failure(kind="Exhausted", message="no machines", reason="NOT_ENOUGH_MACHINES")
    operation = await desk.creating()
    await desk.mark(operation.id, "m.x", "m1", Sighting.STUMBLED, note="no")
    assert (await desk.operations.get(operation.id)).waiting_on == "m.x m1: no"
    await desk.clusters.reach(Reached.badly(operation.id, Phase.ERROR, failure))
    ended = await desk.operations.get(operation.id)
    assert (ended.stage, ended.failure, ended.waiting_on) == (Stage.FAILED, failure, "")
    assert (await desk.lines(operation.id))[-1].failure == failure
    cluster = await desk.clusters.get("hello")
    assert cluster.phase is Phase.ERROR
    assert failure.message in cluster.message


@pytest.mark.parametrize(("whom", "said"), [("ann", "ann"), ("", "someone in Temporal")])
async def test_a_cancelled_end_says_by_whom(desk: Desk, whom: str, said: str) -> None:
    operation = await desk.creating()
    if whom:
        await desk.steering.cancel(operation.id, whom)
    await desk.clusters.reach(Reached.badly(operation.id, Phase.ERROR, Cancelled.by("its caller")))
    ended = await desk.operations.get(operation.id)
    assert (ended.stage, ended.failure) == (Stage.CANCELLED, Cancelled.by(said))
    assert (await desk.lines(operation.id))[-1].note == f"cancelled by {said}"
    assert f"cancelled by {said}" in (await desk.clusters.get("hello")).message


async def test_booking_twice_changes_nothing(desk: Desk) -> None:
    operation = await desk.running()
    cluster = await desk.clusters.get("hello")
    lines = await desk.lines(operation.id)
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    await desk.clusters.reach(
        Reached.badly(operation.id, Phase.ERROR, Failure(kind="Failed", message="late"))
    )
    assert await desk.clusters.get("hello") == cluster
    assert await desk.lines(operation.id) == lines


async def test_booking_the_end_twice_at_once_writes_one_last_line(
    desk: Desk, other_desk: Desk
) -> None:
    operation = await desk.creating()
    well = Reached.well(operation.id, Phase.RUNNING, "ready")
    await asyncio.gather(*(at.clusters.reach(well) for at in (desk, other_desk) * 5))
    lines = await desk.lines(operation.id)
    assert whole(lines)
    assert [line.note for line in lines].count("ready") == 1


async def test_a_move_there_is_not_changes_nothing(desk: Desk) -> None:
    operation = await desk.creating()
    before = await desk.clusters.get("hello")
    with pytest.raises(Conflict, match="is provisioning and cannot become gone"):
        await desk.clusters.reach(Reached.well(operation.id, Phase.GONE, "a bug"))
    assert await desk.clusters.get("hello") == before
    assert (await desk.operations.get(operation.id)).ended is None


async def test_nothing_is_booked_for_an_unknown_operation(desk: Desk) -> None:
    with pytest.raises(NotFound, match="there is no operation none"):
        await desk.clusters.reach(Reached(operation=OperationId("none")))
