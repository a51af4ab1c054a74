import asyncio
from collections import Counter
from itertools import product
from typing import Any

import pytest

from domain.errors import Conflict, Failure
from domain.machine import Machine, Sighting, Slot, SlotPhase, SlotState
from domain.operation import STOPPED, Operation, OperationId, Reached, StepState
from domain.ports import host_key
from store.rows import OperationRow
from tests.store.desk import Desk, whole


async def _slot(desk: Desk, index: int = 0) -> Slot:
    return (await desk.clusters.nodes("hello")).slots[index].slot


async def _state(desk: Desk, index: int = 0) -> SlotState:
    return (await desk.clusters.nodes("hello")).slots[index]


async def _done(desk: Desk, operation: Operation) -> int:
    (row,) = await desk.all(OperationRow, id=operation.id)
    return row.steps_done


async def test_a_step_is_seen_to_begin_and_to_end(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN)
    (step,) = await desk.operations.steps(operation.id)
    assert (step.state, step.attempts, step.ended) == (StepState.ACTIVE, 1, None)

    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.ENDED)
    (step,) = await desk.operations.steps(operation.id)
    assert step.state is StepState.DONE
    assert step.started is not None
    assert step.ended is not None
    assert step.started <= step.ended
    lines = await desk.lines(operation.id)
    assert whole(lines)
    assert [line.note for line in lines[2:]] == [
        "machines.deploy m1 began",
        "machines.deploy m1 ended",
    ]
    assert lines[-1].step == step


async def test_a_stumble_says_why_and_the_next_attempt_goes_on(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN)
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.STUMBLED, note="MAAS said 503")
    (step,) = await desk.operations.steps(operation.id)
    assert (step.state, step.note) == (StepState.STUMBLED, "MAAS said 503")
    assert await _done(desk, operation) == 0

    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN, attempt=2)
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.ENDED, attempt=2)
    (step,) = await desk.operations.steps(operation.id)
    assert (step.state, step.attempts, step.note) == (StepState.DONE, 2, "")
    assert [line.note for line in (await desk.lines(operation.id))[3:]] == [
        "machines.deploy m1 stumbled: MAAS said 503",
        "machines.deploy m1 began (attempt 2)",
        "machines.deploy m1 ended (attempt 2)",
    ]
    assert await _done(desk, operation) == 1


async def test_an_attempt_that_was_given_up_changes_nothing(desk: Desk) -> None:
    operation = await desk.creating()
    slot = await _slot(desk)
    await desk.mark(operation.id, "machines.wait_deployed", slot.name, Sighting.BEGAN, attempt=2)
    before = await desk.lines(operation.id)
    cluster = await desk.clusters.get("hello")
    late = Machine(slot=slot, system_id="late")
    for sighting in (Sighting.ENDED, Sighting.STUMBLED):
        await desk.mark(operation.id, "machines.wait_deployed", slot.name, sighting, learnt=late)
    assert await desk.lines(operation.id) == before
    assert (await _state(desk)).phase is SlotPhase.PLANNED
    assert (await _state(desk)).system_id == ""
    assert await desk.clusters.get("hello") == cluster


@pytest.mark.parametrize("undo", [False, True])
async def test_an_attempt_that_was_given_up_may_not_begin_any_more(desk: Desk, undo: bool) -> None:
    """Its process was frozen, the next attempt came and went, and what it did is undone: who
    begins now would take what nobody knows of."""
    operation = await desk.creating()
    step = (operation.id, "machines.allocate", "m1")
    await desk.mark(*step, Sighting.BEGAN, attempt=2, undo=undo)
    await desk.mark(*step, Sighting.STUMBLED, attempt=2, undo=undo, note="stopped")
    before = await desk.lines(operation.id)
    with pytest.raises(Conflict, match="has gone on with a later attempt") as refused:
        await desk.mark(*step, Sighting.BEGAN, attempt=1, undo=undo)
    assert refused.value.reason == "STALE_OPERATION"
    assert await desk.lines(operation.id) == before
    await desk.mark(*step, Sighting.BEGAN, attempt=3, undo=undo)


async def test_a_step_done_twice_counts_once(desk: Desk) -> None:
    """Its answer was lost on the way to Temporal, so it is done again."""
    operation = await desk.creating()
    await desk.did(operation.id, "machines.deploy", "m1")
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN, attempt=2)
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.ENDED, attempt=2)
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.ENDED, attempt=2)
    assert await _done(desk, operation) == 1


@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize(
    "over", [{"sighting": Sighting.ENDED}, {"sighting": Sighting.STUMBLED, "final": True}]
)
async def test_a_step_that_stumbles_is_waited_for_from_the_first_time_on(
    desk: Desk, undo: bool, over: dict[str, Any]
) -> None:
    operation = await desk.creating()

    async def waiting_on() -> str:
        return (await desk.operations.get(operation.id)).waiting_on

    step = (operation.id, "machines.release", "m7")
    assert await waiting_on() == ""
    await desk.mark(*step, Sighting.STUMBLED, note="MAAS answered 503", undo=undo)
    words = f"{'undo ' * undo}machines.release m7: MAAS answered 503"
    assert await waiting_on() == words
    await desk.did(operation.id, "machines.deploy", "m1")
    await desk.mark(*step, Sighting.BEGAN, attempt=2, undo=undo)
    assert await waiting_on() == words
    await desk.mark(*step, attempt=2, undo=undo, **over)
    assert await waiting_on() == ""


async def test_no_step_is_waited_for_that_was_stopped_or_given_up(desk: Desk) -> None:
    operation = await desk.creating()

    async def waiting_on() -> str:
        return (await desk.operations.get(operation.id)).waiting_on

    drain = (operation.id, "kubernetes.drain", "m7")
    await desk.mark(*drain, Sighting.STUMBLED, note=STOPPED)
    assert await waiting_on() == ""
    await desk.mark(*drain, Sighting.STUMBLED, attempt=2, note="no answer")
    assert await waiting_on() == "kubernetes.drain m7: no answer"
    await desk.mark(*drain, Sighting.STUMBLED, attempt=3, note="no answer", last=True)
    assert await waiting_on() == ""
    await desk.mark(*drain, Sighting.STUMBLED, attempt=4, note="no answer")
    await desk.did(operation.id, "machines.deploy", "m1")
    assert await waiting_on() == "kubernetes.drain m7: no answer"
    await desk.mark(operation.id, "machines.release", "m7", Sighting.BEGAN)
    assert await waiting_on() == "", "Temporal has given it up"


async def test_an_undo_is_no_progress(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.mark(operation.id, "machines.release", "m1", Sighting.BEGAN, undo=True)
    await desk.mark(operation.id, "machines.release", "m1", Sighting.ENDED, undo=True)
    assert await _done(desk, operation) == 0


async def test_the_cluster_says_how_far_its_operation_has_come(desk: Desk) -> None:
    operation = await desk.creating()
    (row,) = await desk.all(OperationRow)
    await desk.did(operation.id, "machines.deploy", "m1")
    assert (await desk.clusters.get("hello")).message == (
        f"create: 1/{row.steps} steps; machines.deploy m1 ended (op {operation.id})"
    )


async def test_a_slot_follows_what_is_done_to_it(desk: Desk) -> None:
    operation = await desk.creating()
    slot = await _slot(desk)
    told = Machine(slot=slot, system_id="abc", hostname="node-1", status="Allocated")
    await desk.did(operation.id, "machines.allocate", slot.name, learnt=told)
    state = await _state(desk)
    assert (state.phase, state.system_id, state.hostname) == (SlotPhase.ALLOCATED, "abc", "node-1")

    await desk.did(operation.id, "machines.deploy", slot.name)
    assert (await _state(desk)).phase is SlotPhase.DEPLOYING
    told = told.model_copy(update={"address": "127.0.0.9", "status": "Deployed"})
    await desk.did(operation.id, "machines.wait_deployed", slot.name, learnt=told)
    state = await _state(desk)
    assert (state.phase, state.address, state.status) == (
        SlotPhase.DEPLOYED,
        "127.0.0.9",
        "Deployed",
    )
    await desk.did(operation.id, "kubeadm.reach", slot.name)
    assert (await _state(desk)).phase is SlotPhase.DEPLOYED
    await desk.did(operation.id, "kubeadm.initialise", slot.name)
    assert (await _state(desk)).phase is SlotPhase.JOINED
    await desk.did(operation.id, "kubernetes.wait_node", slot.name, kubelet="1.32.1")
    state = await _state(desk)
    assert (state.phase, state.kubelet) == (SlotPhase.HEALTHY, "1.32.1")

    await desk.mark(operation.id, "machines.release", slot.name, Sighting.BEGAN, undo=True)
    state = await _state(desk)
    seen = (state.phase, state.system_id, state.status)
    assert seen == (SlotPhase.RELEASING, "abc", "Releasing")
    await desk.mark(operation.id, "machines.release", slot.name, Sighting.ENDED, undo=True)
    assert await _state(desk) == SlotState(slot=slot, phase=SlotPhase.RELEASED)


async def test_a_machine_that_lets_its_slot_down_is_seen(desk: Desk) -> None:
    operation = await desk.creating()
    slot = await _slot(desk)
    step = ("machines.wait_deployed", slot.name)
    await desk.mark(operation.id, *step, Sighting.BEGAN)
    await desk.mark(operation.id, *step, Sighting.STUMBLED, note="asleep")
    assert (await _state(desk)).phase is SlotPhase.PLANNED
    await desk.mark(operation.id, *step, Sighting.BEGAN, attempt=2)
    await desk.mark(
        operation.id,
        *step,
        Sighting.STUMBLED,
        attempt=2,
        final=True,
        status="Failed deployment",
    )
    state = await _state(desk)
    assert (state.phase, state.status) == (SlotPhase.FAILED, "Failed deployment")


async def test_an_operation_that_has_not_begun_may_not_act(desk: Desk) -> None:
    operation = await desk.create()
    with pytest.raises(Conflict, match="is requested") as refused:
        await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN)
    assert refused.value.reason == "STALE_OPERATION"


async def test_an_operation_that_is_over_may_not_act(desk: Desk) -> None:
    operation = await desk.running()
    for sighting, undo in product(Sighting, (False, True)):
        with pytest.raises(Conflict, match="is over"):
            await desk.mark(operation.id, "machines.deploy", "m1", sighting, undo=undo)
    assert (await desk.lines(operation.id))[-1].last


async def test_an_operation_nobody_knows_may_not_act(desk: Desk) -> None:
    with pytest.raises(Conflict, match="is over"):
        await desk.mark(OperationId("none"), "machines.deploy", "m1", Sighting.BEGAN)


async def test_what_was_pushed_aside_ends_its_steps_and_undoes_and_begins_none(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN)
    deleting = (await desk.delete()).operation
    before = await desk.clusters.get("hello")

    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.ENDED)
    await desk.mark(operation.id, "machines.release", "m1", Sighting.BEGAN, undo=True)
    await desk.mark(operation.id, "machines.release", "m1", Sighting.ENDED, undo=True)
    with pytest.raises(Conflict, match="is superseded"):
        await desk.mark(operation.id, "machines.deploy", "m2", Sighting.BEGAN)

    assert await desk.clusters.get("hello") == before
    assert before.operation == deleting.id
    await desk.clusters.reach(
        Reached.badly(operation.id, None, Failure(kind="Cancelled", message="undone"))
    )
    with pytest.raises(Conflict, match="is over"):
        await desk.mark(operation.id, "machines.release", "m2", Sighting.BEGAN, undo=True)


async def test_steps_left_open_end_with_their_operation(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.did(operation.id, "machines.deploy", "m1")
    await desk.mark(operation.id, "machines.deploy", "m2", Sighting.BEGAN)
    await desk.clusters.reach(
        Reached.badly(operation.id, None, Failure(kind="Failed", message="no"))
    )
    steps = await desk.operations.steps(operation.id)
    assert [(step.state, step.note) for step in steps] == [
        (StepState.DONE, ""),
        (StepState.STUMBLED, "not heard of again"),
    ]
    assert all(step.ended for step in steps)


async def test_a_refused_mark_takes_no_other_with_it(desk: Desk) -> None:
    """They come together, so they share a transaction."""
    operation = await desk.creating("hello")
    over = await desk.running("over")
    answers = await asyncio.gather(
        desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN),
        desk.mark(over.id, "machines.deploy", "m1", Sighting.BEGAN),
        desk.mark(OperationId("none"), "machines.deploy", "m1", Sighting.BEGAN),
        desk.mark(operation.id, "machines.deploy", "m2", Sighting.BEGAN),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [type(None), Conflict, Conflict, type(None)]
    assert len(await desk.operations.steps(operation.id)) == 2


async def test_what_a_host_says_is_kept_whatever_it_is(desk: Desk) -> None:
    """Hosts print what they like: NUL, which PostgreSQL refuses, or a novel."""
    operation = await desk.creating()
    note = "\x00\x1b[31m\N{PILE OF POO}" + "x" * 5000
    await desk.mark(operation.id, "kubeadm.join", "m1", Sighting.STUMBLED, note=note)
    failure = Failure(kind="Failed", message=note)
    await desk.clusters.reach(Reached.badly(operation.id, None, failure))
    (step,) = await desk.operations.steps(operation.id)
    assert step.note.startswith("\N{REPLACEMENT CHARACTER}\x1b[31m\N{PILE OF POO}xxx")
    assert len(step.note) == 500
    assert len((await desk.clusters.get("hello")).message) == 1000
    assert (await desk.operations.get(operation.id)).failure == failure


async def test_many_marks_at_once_leave_a_whole_journal(desk: Desk, other_desk: Desk) -> None:
    """From two processes, on two operations, each step begun and ended by one of them."""
    operations = [await desk.creating("apple"), await desk.creating("banana")]
    before = {operation.id: len(await desk.lines(operation.id)) for operation in operations}

    await asyncio.gather(
        *(
            at.did(operation.id, "machines.deploy", f"{number}-{name}")
            for operation in operations
            for number in range(25)
            for name, at in (("m", desk), ("n", other_desk))
        )
    )
    for operation in operations:
        lines = await desk.lines(operation.id)
        assert whole(lines)
        assert len(lines) == before[operation.id] + 100
        assert [line.time for line in lines] == sorted(line.time for line in lines)
        said = Counter(line.note for line in lines)
        assert set(said.values()) == {1}
        ended = [line.note for line in lines if line.note.endswith("ended")]
        for note in ended:
            notes = [line.note for line in lines]
            assert notes.index(note.replace("ended", "began")) < notes.index(note)
        assert await _done(desk, operation) == 50
        assert (await desk.operations.get(operation.id)).last_event == len(lines)


async def test_two_processes_that_begin_the_same_step_are_both_noted(
    desk: Desk, other_desk: Desk
) -> None:
    """An attempt that was given up and the next one may meet."""
    operation = await desk.creating()
    await asyncio.gather(
        *(
            at.mark(operation.id, "machines.deploy", f"m{number}", Sighting.BEGAN)
            for at in (desk, other_desk)
            for number in range(10)
        )
    )
    assert len(await desk.operations.steps(operation.id)) == 10
    lines = await desk.lines(operation.id)
    assert whole(lines)
    assert len(lines) == 22


async def test_a_host_key_is_forgotten_with_the_system_that_showed_it(desk: Desk) -> None:
    """The same machine may fill the same slot again, and shows another key then."""
    operation = await desk.creating()
    slot, neighbour = await _slot(desk), await _slot(desk, 1)
    pins = [host_key(Machine(slot=one, system_id="m1")) for one in (slot, neighbour)]
    for pin in pins:
        await desk.vault.keep_first(pin, b"the old system's key")
    await desk.mark(operation.id, "machines.release", slot.name, Sighting.BEGAN)
    assert await desk.vault.keep_first(pins[0], b"early") == b"the old system's key"
    await desk.mark(operation.id, "machines.release", slot.name, Sighting.ENDED)
    assert await desk.vault.keep_first(pins[0], b"the new one's") == b"the new one's"
    assert await desk.vault.open(pins[1]) == b"the old system's key"
