"""What people wish of operations while they run, on both databases."""

from datetime import timedelta

import pytest

from domain.errors import Conflict, NotFound
from domain.machine import Sighting
from domain.operation import PAUSED, OperationId, Stage
from tests.store.desk import Desk
from tests.store.invariants import broken

HOUR = timedelta(hours=1)
NONE = OperationId("00000000-0000-4000-8000-000000000000")


async def test_what_is_paused_begins_no_step_and_ends_those_under_way(desk: Desk) -> None:
    operation = (await desk.creating()).id
    await desk.mark(operation, "machines.deploy", "w-1", Sighting.BEGAN)
    paused = await desk.steering.pause(operation, "bob")
    assert (paused.stage, paused.paused_by) == (Stage.RUNNING, "bob")
    assert "paused by bob" in (await desk.clusters.get("hello")).message
    with pytest.raises(Conflict) as refused:
        await desk.mark(operation, "machines.wait_deployed", "w-1", Sighting.BEGAN)
    assert refused.value.reason == PAUSED
    await desk.mark(operation, "machines.deploy", "w-1", Sighting.STUMBLED, note="no answer")
    await desk.mark(operation, "machines.deploy", "w-1", Sighting.BEGAN, attempt=2)
    await desk.mark(operation, "machines.deploy", "w-1", Sighting.ENDED, attempt=2)
    await desk.mark(operation, "machines.release", "w-1", Sighting.BEGAN, undo=True)
    assert "paused by bob" in (await desk.clusters.get("hello")).message
    await desk.steering.resume(operation, "carol")
    await desk.mark(operation, "machines.wait_deployed", "w-1", Sighting.BEGAN)
    said = [line.note for line in await desk.lines(operation)]
    assert "paused by bob; steps under way end" in said
    assert "resumed by carol" in said
    assert await broken(desk.database) == []


async def test_what_is_called_off_begins_no_step_until_it_hears_of_it(desk: Desk) -> None:
    operation = (await desk.creating()).id
    await desk.mark(operation, "machines.deploy", "w-1", Sighting.BEGAN)
    await desk.steering.pause(operation, "bob")
    called_off = await desk.steering.cancel(operation, "ann")
    assert (called_off.stage, called_off.paused_by) == (Stage.RUNNING, "")
    with pytest.raises(Conflict, match="is being called off") as refused:
        await desk.mark(operation, "machines.wait_deployed", "w-1", Sighting.BEGAN)
    assert refused.value.reason == PAUSED
    assert (await desk.steering.look(operation)).paused
    await desk.mark(operation, "machines.deploy", "w-1", Sighting.ENDED)
    await desk.mark(operation, "machines.release", "w-1", Sighting.BEGAN, undo=True)
    assert await broken(desk.database) == []


async def test_a_delete_cannot_be_paused(desk: Desk) -> None:
    await desk.running()
    deleting = (await desk.delete()).operation
    with pytest.raises(Conflict, match="the delete of cluster/hello cannot be paused") as no:
        await desk.steering.pause(deleting.id, "bob")
    assert (no.value.reason, no.value.facts["state"]) == ("NOT_PAUSABLE", "requested")
    assert (await desk.operations.get(deleting.id)).paused_by == ""


async def test_asking_again_changes_nothing(desk: Desk) -> None:
    operation = (await desk.creating()).id
    await desk.steering.resume(operation, "bob")
    assert len(await desk.lines(operation)) == 2
    for who in ("bob", "carol"):
        assert (await desk.steering.pause(operation, who)).paused_by == "bob"
    assert len(await desk.lines(operation)) == 3
    for who in ("bob", "carol"):
        assert (await desk.steering.resume(operation, who)).paused_by == ""
    assert len(await desk.lines(operation)) == 4


async def test_a_wish_is_unheeded_until_the_workflow_itself_has_looked(desk: Desk) -> None:
    operation = (await desk.creating()).id
    assert await desk.operations.unheeded() == []
    await desk.steering.pause(operation, "bob")
    assert (await desk.steering.look(operation, heeds=False)).paused
    assert [each.id for each in await desk.operations.unheeded()] == [operation]
    assert (await desk.steering.look(operation)).paused
    assert await desk.operations.unheeded() == []
    await desk.steering.resume(operation, "bob")
    assert [each.id for each in await desk.operations.unheeded()] == [operation]
    assert not (await desk.steering.look(operation)).paused


async def test_what_is_paused_before_it_begins_is_told_so_when_it_does(desk: Desk) -> None:
    operation = (await desk.create()).id
    await desk.steering.pause(operation, "bob")
    assert (await desk.operations.begin(operation)).paused
    assert await desk.operations.unheeded() == []


async def test_who_is_called_off_or_taken_over_is_held_no_longer(desk: Desk) -> None:
    for number, ends in enumerate(("cancel", "delete")):
        name = f"hello-{number}"
        operation = (await desk.creating(name)).id
        await desk.steering.pause(operation, "bob")
        if ends == "cancel":
            await desk.steering.cancel(operation, "bob")
        else:
            await desk.delete(name)
        assert (await desk.operations.get(operation)).paused_by == ""
        for wish in (desk.steering.pause, desk.steering.resume):
            with pytest.raises(Conflict, match="cannot be") as refused:
                await wish(operation, "bob")
            assert refused.value.reason == "OPERATION_ENDED"


async def test_what_has_ended_is_steered_no_further(desk: Desk) -> None:
    operation = (await desk.running()).id
    with pytest.raises(Conflict, match="is succeeded and cannot be paused"):
        await desk.steering.pause(operation, "bob")
    with pytest.raises(NotFound):
        await desk.steering.pause(NONE, "bob")


async def test_a_gate_opens_for_who_names_it_and_is_told_in_the_journal(desk: Desk) -> None:
    operation = (await desk.creating()).id
    with pytest.raises(Conflict) as early:
        await desk.steering.approve(operation, "", "bob")
    assert early.value.reason == "NOT_AWAITED"
    assert "op watch" in early.value.do
    passage = await desk.steering.arrive(operation, "pool w", HOUR)
    assert not passage.open
    assert 3500 < passage.left_seconds <= 3600
    standing = await desk.operations.get(operation)
    assert standing.gate == "pool w"
    assert standing.gate_until is not None
    assert "for pool w to be approved" in (await desk.clusters.get("hello")).message
    with pytest.raises(Conflict, match="does not wait for pool x"):
        await desk.steering.approve(operation, "pool x", "bob")
    await desk.steering.approve(operation, "pool w", "bob")
    assert (await desk.operations.get(operation)).gate == ""
    assert (await desk.steering.arrive(operation, "pool w", HOUR)).open
    before = len(await desk.lines(operation))
    await desk.steering.approve(operation, "pool w", "carol")  # a repeat
    assert len(await desk.lines(operation)) == before
    assert "pool w approved by bob" in [line.note for line in await desk.lines(operation)]
    assert not (await desk.steering.arrive(operation, "pool x", HOUR)).open


async def test_a_gate_that_nobody_opens_calls_its_operation_off(desk: Desk) -> None:
    operation = (await desk.creating()).id
    await desk.steering.arrive(operation, "pool w", HOUR)
    await desk.steering.arrive(operation, "pool w", timedelta(0))  # the first one's time counts
    assert not (await desk.operations.get(operation)).cancel_requested
    late = await desk.steering.arrive(operation, "pool x", timedelta(0))
    assert late.lapsed
    called_off = await desk.operations.get(operation)
    assert called_off.cancel_requested
    assert called_off.gate == ""
    assert (await desk.steering.arrive(operation, "pool x", HOUR)).lapsed
    with pytest.raises(Conflict):
        await desk.steering.approve(operation, "", "bob")


async def test_a_gate_does_not_lapse_while_its_operation_is_paused(desk: Desk) -> None:
    operation = (await desk.creating()).id
    await desk.steering.arrive(operation, "pool w", timedelta(seconds=60))
    before = (await desk.operations.get(operation)).gate_until
    await desk.steering.pause(operation, "bob")
    first = await desk.steering.arrive(operation, "pool w", HOUR)
    again = await desk.steering.arrive(operation, "pool w", HOUR)
    assert first.left_seconds == again.left_seconds > 0
    await desk.steering.resume(operation, "bob")
    after = (await desk.operations.get(operation)).gate_until
    assert before is not None
    assert after is not None
    assert after > before
