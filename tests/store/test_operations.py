import asyncio
from datetime import timedelta

import pytest

from domain.cluster import Phase
from domain.errors import AlreadyExists, Conflict, Failure, Invalid, NotFound
from domain.machine import LeftBehind, Sighting
from domain.operation import Backlog, Kind, Operation, OperationId, Reached, Stage
from domain.pools import PoolSize
from store import steps
from store.forgetting import Forgetting
from store.rows import AnswerRow, JournalRow, OperationRow, StepRow, now
from tests.store.desk import TERMS, Desk, ask, whole
from tests.store.invariants import broken

NONE = OperationId("none")


async def test_an_operation_nobody_knows_is_not_found(desk: Desk) -> None:
    for asked in (
        desk.operations.get(NONE),
        desk.operations.plan(NONE),
        desk.operations.begin(NONE),
        desk.steering.cancel(NONE, "ann"),
        desk.operations.forget(NONE),
        desk.operations.fence(NONE),
    ):
        with pytest.raises(NotFound, match="there is no operation none"):
            await asked
    assert await desk.operations.steps(NONE) == []


async def test_beginning_is_told_what_is_to_be_done(desk: Desk) -> None:
    created = await desk.create()
    brief = await desk.operations.begin(created.id)
    assert (brief.operation, brief.kind) == (created.id, Kind.CREATE_CLUSTER)
    assert brief.plan == (await desk.operations.plan(created.id)).model_dump_json()
    assert not brief.over
    running = await desk.operations.get(created.id)
    assert running.stage is Stage.RUNNING
    assert running.started is not None
    assert created.created <= running.started


async def test_beginning_again_says_the_same(desk: Desk) -> None:
    created = await desk.create()
    brief = await desk.operations.begin(created.id)
    lines = await desk.lines(created.id)
    assert await desk.operations.begin(created.id) == brief
    assert await desk.lines(created.id) == lines


async def test_what_is_over_or_pushed_aside_is_not_begun(desk: Desk) -> None:
    ended = await desk.running("ended")
    assert (await desk.operations.begin(ended.id)).over
    pushed = await desk.creating("pushed")
    deleting = (await desk.delete("pushed")).operation
    assert (await desk.operations.begin(pushed.id)).over
    assert (await desk.operations.begin(deleting.id)).supersedes == pushed.id


async def test_what_was_pushed_aside_before_it_did_anything_ends_when_it_is_begun_again(
    desk: Desk,
) -> None:
    """Its process was killed when it had begun, so no workflow would ever end it."""
    pushed = await desk.creating()
    await desk.delete()
    for _ in range(2):
        assert (await desk.operations.begin(pushed.id)).over
    ended = await desk.operations.get(pushed.id)
    assert (ended.stage, ended.ended is None) == (Stage.SUPERSEDED, False)
    lines = await desk.lines(pushed.id)
    assert whole(lines)
    assert lines[-1].note == "superseded before it did anything"
    assert await desk.journal.ended(pushed.id)


async def test_a_beginning_that_comes_late_ends_nothing_that_has_done_something(
    desk: Desk,
) -> None:
    """Its workflow has gone on without it, and has to undo that."""
    pushed = await desk.creating()
    await desk.mark(pushed.id, "machines.allocate", "m1", Sighting.BEGAN)
    await desk.delete()
    assert (await desk.operations.begin(pushed.id)).over
    assert (await desk.operations.get(pushed.id)).ended is None
    await desk.mark(pushed.id, "machines.release", "m1", Sighting.BEGAN, undo=True)


async def test_a_cancel_before_the_beginning_is_in_the_brief(desk: Desk) -> None:
    created = await desk.create()
    cancelled = await desk.steering.cancel(created.id, "bob")
    assert (cancelled.cancel_requested, cancelled.stage) == (True, Stage.REQUESTED)
    assert await desk.operations.called_off() == []
    assert (await desk.operations.begin(created.id)).cancelled_by == "bob"


async def test_a_cancel_is_asked_for_once(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.steering.cancel(operation.id, "bob")
    again = await desk.steering.cancel(operation.id, "carol")
    assert again.cancel_requested
    assert [each.id for each in await desk.operations.called_off()] == [operation.id]
    notes = [line.note for line in await desk.lines(operation.id)]
    assert notes[2:] == ["cancel asked for by bob; undoing"]


async def test_what_has_ended_cannot_be_cancelled(desk: Desk) -> None:
    ended = await desk.running()
    with pytest.raises(Conflict, match="is succeeded and cannot be cancelled") as refused:
        await desk.steering.cancel(ended.id, "bob")
    assert refused.value.reason == "OPERATION_ENDED"
    pushed = await desk.creating("pushed")
    await desk.delete("pushed")
    with pytest.raises(Conflict, match="is superseded"):
        await desk.steering.cancel(pushed.id, "bob")


async def test_a_delete_cannot_be_cancelled(desk: Desk) -> None:
    await desk.running()
    deleting = (await desk.delete()).operation
    with pytest.raises(Conflict, match="the delete of cluster/hello cannot be cancelled") as no:
        await desk.steering.cancel(deleting.id, "bob")
    assert (no.value.reason, no.value.facts["state"]) == ("NOT_CANCELLABLE", "requested")


async def test_what_runs_cannot_be_forgotten(desk: Desk) -> None:
    operation = await desk.creating()
    with pytest.raises(Conflict, match="is running and cannot be deleted") as refused:
        await desk.operations.forget(operation.id)
    assert refused.value.reason == "OPERATION_RUNNING"


async def test_the_latest_operation_of_a_living_cluster_cannot_be_forgotten(desk: Desk) -> None:
    operation = await desk.running()
    with pytest.raises(Conflict, match="is the latest of cluster hello") as refused:
        await desk.operations.forget(operation.id)
    assert refused.value.reason == "OPERATION_IN_USE"
    await desk.delete()
    await desk.operations.forget(operation.id)


async def test_forgetting_takes_everything_with_it(desk: Desk) -> None:
    operation = await desk.create(asked=ask("key-1"))
    await desk.operations.begin(operation.id)
    await desk.did(operation.id, "machines.deploy", "m1")
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    deleted = await desk.deleted()
    await desk.operations.forget(operation.id)
    for asked in (desk.operations.get(operation.id), desk.lines(operation.id)):
        with pytest.raises(NotFound):
            await asked
    assert await desk.operations.steps(operation.id) == []
    assert await desk.all(AnswerRow) == []
    assert (await desk.create(asked=ask("key-1"))).id != operation.id
    assert [line.number for line in await desk.lines(deleted.id)] == [1, 2, 3]


async def test_what_ended_long_ago_is_forgotten_but_not_the_latest_of_a_cluster(
    desk: Desk,
) -> None:
    first = await desk.running()
    gone = [first.id, (await desk.deleted()).id]
    second = await desk.standing()
    scaled = await desk.pools.request_scale(
        "hello", [PoolSize(name="pool", count=3)], TERMS, ask("key-1")
    )
    assert scaled is not None
    await desk.operations.begin(scaled.id)
    await desk.clusters.reach(Reached.well(scaled.id, None, "done"))
    leaving = (await desk.running("other")).id
    left = LeftBehind(name="w-1", why="MAAS")
    forced = (await desk.delete("other")).operation.id
    await desk.operations.begin(forced)
    reached = Reached.well(forced, Phase.GONE, "deleted")
    await desk.clusters.reach(reached.model_copy(update={"left_behind": (left,)}))
    forgetting = Forgetting(desk.database)
    await forgetting.operations(timedelta(days=90))
    assert len(await desk.all(OperationRow)) == 6
    await desk.change(OperationRow, {"ended": now() - timedelta(days=91)})
    await forgetting.operations(timedelta(days=90))
    kept = {row.id for row in await desk.all(OperationRow)}
    assert kept == {scaled.id, forced}, (gone, second.id, leaving)
    assert {row.operation for row in await desk.all(JournalRow)} == kept
    assert await broken(desk.database) == []


async def test_a_fence_around_what_is_over_changes_nothing(desk: Desk) -> None:
    operation = await desk.running()
    before = await desk.lines(operation.id)
    await desk.operations.fence(operation.id)
    assert await desk.lines(operation.id) == before


async def test_a_fenced_operation_lets_go_of_its_subject(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.operations.fence(operation.id)
    assert (await desk.operations.get(operation.id)).stage is Stage.SUPERSEDED
    assert (await desk.delete()).operation.stage is Stage.REQUESTED


async def _pages(desk: Desk, size: int, **only: object) -> list[list[Operation]]:
    pages: list[list[Operation]] = []
    before = None
    while True:
        page = await desk.operations.page(size=size, before=before, **only)  # type: ignore[arg-type]
        if not page:
            return pages
        pages.append(page)
        before = page[-1].id


async def test_pages_show_the_newest_first_and_each_once(desk: Desk) -> None:
    names = [f"c{number}" for number in range(7)]
    made = [(await desk.create(name)).id for name in names]
    pages = await _pages(desk, 3)
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [operation.id for page in pages for operation in page] == made[::-1]


async def test_what_is_made_while_paging_moves_nothing(desk: Desk) -> None:
    made = [(await desk.create(f"c{number}")).id for number in range(4)]
    first = await desk.operations.page(size=2)
    await desk.create("later")
    second = await desk.operations.page(size=2, before=first[-1].id)
    assert [operation.id for operation in first + second] == made[::-1]


async def test_operations_of_the_same_moment_are_not_lost_between_pages(desk: Desk) -> None:
    made = {(await desk.create(f"c{number}")).id for number in range(5)}
    await desk.change(OperationRow, {"created": now()})
    shown = [operation.id for page in await _pages(desk, 2) for operation in page]
    assert len(shown) == 5
    assert set(shown) == made


async def test_a_page_after_what_is_forgotten_is_refused(desk: Desk) -> None:
    with pytest.raises(Invalid, match="page token") as refused:
        await desk.operations.page(size=2, before=NONE)
    assert refused.value.reason == "PAGE_TOKEN_EXPIRED"


async def test_pages_can_be_narrowed(desk: Desk) -> None:
    apple = await desk.running("apple")
    banana = await desk.create("banana")
    delete = (await desk.delete("apple")).operation
    narrowed: dict[str, dict[str, object]] = {
        "subject": {"subject": "cluster/apple"},
        "kind": {"kind": "delete-cluster"},
        "stages": {"stages": [Stage.REQUESTED]},
        "all": {"subject": "cluster/apple", "stages": [Stage.SUCCEEDED]},
    }
    found = {
        name: [operation.id for page in await _pages(desk, 1, **only) for operation in page]
        for name, only in narrowed.items()
    }
    assert found == {
        "subject": [delete.id, apple.id],
        "kind": [delete.id],
        "stages": [delete.id, banana.id],
        "all": [apple.id],
    }


async def test_durations_are_learnt_from_steps_that_ended_well(desk: Desk) -> None:
    operation = await desk.creating()
    for number, seconds in enumerate((3.0, 1.0, 2.0)):
        await desk.did(operation.id, "machines.deploy", f"m{number}")
        key = f"machines.deploy m{number}"
        await desk.change(StepRow, {"seconds": seconds}, key=key)
    await desk.did(operation.id, "kubeadm.join", "m1")
    await desk.change(StepRow, {"seconds": 7.5}, verb="kubeadm.join")
    await desk.mark(operation.id, "kubeadm.reach", "m1", Sighting.BEGAN)
    await desk.mark(operation.id, "kubernetes.label", "m1", Sighting.STUMBLED)
    assert await desk.operations.learnt() == {"machines.deploy": 2.0, "kubeadm.join": 7.5}


async def test_what_is_done_often_crowds_out_nothing_that_is_done_seldom(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LEARN_FROM", 3)
    operation = await desk.creating()
    await desk.did(operation.id, "machines.deploy", "m1")
    await desk.change(StepRow, {"seconds": 5.0})
    for number in range(6):
        await desk.did(operation.id, "machines.release", f"m{number}")
        seconds = 100.0 if number < 3 else float(number)  # the oldest do not count
        key = f"machines.release m{number}"
        await desk.change(StepRow, {"seconds": seconds}, key=key)
    assert await desk.operations.learnt() == {"machines.deploy": 5.0, "machines.release": 4.0}


async def test_nothing_is_learnt_from_nothing(desk: Desk) -> None:
    assert await desk.operations.learnt() == {}


async def test_what_nobody_took_up_is_found_again_oldest_first(desk: Desk) -> None:
    made = [(await desk.create(f"c{number}")).id for number in range(3)]
    await desk.creating("begun")
    assert await desk.operations.unlaunched(60) == []
    assert [each.id for each in await desk.operations.unlaunched(-1)] == made
    assert [each.id for each in await desk.operations.unlaunched(-1, limit=2)] == made[:2]


async def test_what_was_called_off_is_found_until_it_has_ended(desk: Desk) -> None:
    cancelled = await desk.creating("cancelled")
    await desk.steering.cancel(cancelled.id, "ann")
    pushed = await desk.creating("pushed")
    await desk.delete("pushed")
    await desk.creating("untouched")
    assert [each.id for each in await desk.operations.called_off()] == [cancelled.id, pushed.id]
    for operation in (cancelled, pushed):
        await desk.clusters.reach(
            Reached.badly(operation.id, Phase.ERROR, Failure(kind="Cancelled", message="undone"))
        )
    assert await desk.operations.called_off() == []


async def test_what_has_been_silent_is_found_and_any_mark_breaks_the_silence(desk: Desk) -> None:
    operation = await desk.creating()
    waiting = await desk.create("never-begun")
    await desk.running("over")
    await desk.change(OperationRow, {"heard": now() - timedelta(seconds=60)})
    silent = desk.operations.silent
    assert [each.id for each in await silent(30, 30)] == [operation.id, waiting.id]
    assert [each.id for each in await silent(30, 90)] == [operation.id]
    assert [each.id for each in await silent(90, 30)] == [waiting.id]
    await desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN)
    assert [each.id for each in await silent(30, 30)] == [waiting.id]


async def test_who_lives_makes_room_for_those_who_are_lost(desk: Desk) -> None:
    made = [(await desk.creating(f"c{number}")).id for number in range(3)]
    await desk.change(OperationRow, {"heard": now() - timedelta(hours=1)})
    assert [each.id for each in await desk.operations.silent(60, 60, limit=2)] == made[:2]
    lines = await desk.lines(made[0])
    for operation in made[:2]:
        await desk.operations.found_alive(operation)
    assert [each.id for each in await desk.operations.silent(60, 60, limit=2)] == made[2:]
    assert await desk.lines(made[0]) == lines


async def test_request_ids_are_forgotten_after_their_window(desk: Desk) -> None:
    await desk.create("old", asked=ask("key-old"))
    await desk.change(AnswerRow, {"created": now() - timedelta(hours=25)})
    recent = await desk.create("recent", asked=ask("key-recent"))
    await desk.operations.forget_answers(timedelta(hours=24))
    assert (await desk.create("recent", asked=ask("key-recent"))).id == recent.id
    with pytest.raises(AlreadyExists):
        await desk.create("old", asked=ask("key-old"))


async def test_a_cancel_and_an_end_at_once_agree(desk: Desk, other_desk: Desk) -> None:
    for number in range(5):
        operation = await desk.creating(f"c{number}")
        cancelled, _ = await asyncio.gather(
            other_desk.steering.cancel(operation.id, "bob"),
            desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready")),
            return_exceptions=True,
        )
        notes = [line.note for line in await desk.lines(operation.id)]
        asked = "cancel asked for by bob; undoing" in notes
        assert asked is not isinstance(cancelled, Conflict)
        assert notes[-1] == "ready"


async def test_the_backlog_is_what_stands_still(desk: Desk) -> None:
    assert (await desk.operations.backlog()) == Backlog(oldest_requested_seconds=0, waiting={})
    running = await desk.creating("hello")
    await desk.create("later")
    for attempt in range(1, 6):
        for sighting in (Sighting.BEGAN, Sighting.STUMBLED):
            await desk.mark(
                running.id, "machines.deploy", "m1", sighting, attempt=attempt, note="no"
            )
    backlog = await desk.operations.backlog()
    assert backlog.oldest_requested_seconds > 0
    assert backlog.waiting == {Kind.CREATE_CLUSTER: 1}
