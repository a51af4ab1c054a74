import asyncio

import pytest

from domain import ports
from domain.cluster import Phase
from domain.errors import Conflict, Failure, Invalid, NotFound
from domain.machine import Sighting
from domain.operation import Cancelled, Kind, Reached, Stage
from store import operations
from store.rows import ClusterRow, PoolRow, SecretRow, SlotRow
from tests.store.desk import Desk, ask, until, whole


async def test_a_delete_stops_the_cluster_and_withdraws_its_kubeconfig(desk: Desk) -> None:
    created = await desk.running()
    assert (await desk.clusters.get("hello")).published

    deleted = await desk.delete()

    assert (deleted.operation.kind, deleted.operation.stage) == (
        Kind.DELETE_CLUSTER,
        Stage.REQUESTED,
    )
    assert deleted.superseded is None
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.published) == (Phase.STOPPING, False)
    assert cluster.message == f"delete: accepted (op {deleted.operation.id})"
    assert cluster.operation == deleted.operation.id
    assert await desk.operations.plan(deleted.operation.id) == await desk.operations.plan(
        created.id
    )


async def test_a_delete_pushes_a_running_create_aside(desk: Desk) -> None:
    creating = await desk.creating()
    deleted = await desk.delete()
    assert deleted.superseded == deleted.operation.supersedes == creating.id
    pushed = await desk.operations.get(creating.id)
    assert (pushed.stage, pushed.ended) == (Stage.SUPERSEDED, None)
    assert [operation.id for operation in await desk.operations.called_off()] == [creating.id]
    assert (await desk.lines(creating.id))[-1].note == "superseded by a delete; undoing"


async def test_a_create_that_never_began_ends_at_once(desk: Desk) -> None:
    created = await desk.create()
    deleted = await desk.delete()
    assert deleted.superseded is None
    ended = await desk.operations.get(created.id)
    assert ended.stage is Stage.SUPERSEDED
    assert ended.ended is not None
    assert await desk.operations.called_off() == []
    assert (await desk.operations.begin(created.id)).over
    (_, last) = await desk.lines(created.id)
    assert (last.note, last.last) == ("superseded before it began", True)


async def test_deleting_again_while_it_stops_is_the_same_operation(desk: Desk) -> None:
    await desk.running()
    first = await desk.delete()
    again = await desk.delete(asked=ask("key-2", method="Delete"))
    assert again.operation.id == first.operation.id
    assert again.superseded is None
    await desk.operations.begin(first.operation.id)
    assert (await desk.delete()).operation.id == first.operation.id


async def test_a_delete_that_joined_another_is_remembered_beyond_its_end(desk: Desk) -> None:
    await desk.running()
    first = await desk.delete()
    await desk.delete(asked=ask("key-2", method="Delete"))
    await desk.operations.begin(first.operation.id)
    await desk.clusters.reach(Reached.well(first.operation.id, Phase.GONE, "deleted"))
    again = await desk.delete(asked=ask("key-2", method="Delete"))
    assert again.operation.id == first.operation.id


async def test_a_repeated_delete_is_answered_after_the_cluster_is_gone(desk: Desk) -> None:
    await desk.running()
    first = await desk.delete(asked=ask("key-1", digest="d", method="Delete"))
    await desk.operations.begin(first.operation.id)
    await desk.clusters.reach(Reached.well(first.operation.id, Phase.GONE, "deleted"))
    again = await desk.delete(asked=ask("key-1", digest="d", method="Delete"))
    assert again.operation.id == first.operation.id
    assert again.operation.stage is Stage.SUCCEEDED
    with pytest.raises(Invalid, match="used before"):
        await desk.delete(asked=ask("key-1", digest="other", method="Delete"))
    with pytest.raises(NotFound):
        await desk.delete(asked=ask("key-2", method="Delete"))


async def test_a_delete_that_failed_can_be_asked_for_again(desk: Desk) -> None:
    await desk.running()
    first = (await desk.delete()).operation
    await desk.operations.begin(first.id)
    failure = Failure(kind="Failed", message="MAAS is on fire")
    await desk.clusters.reach(Reached.badly(first.id, None, failure))
    assert (await desk.clusters.get("hello")).phase is Phase.STOPPING
    second = (await desk.delete()).operation
    assert second.id != first.id
    assert second.supersedes is None


async def test_nothing_is_left_of_a_buried_cluster_but_its_record(desk: Desk) -> None:
    await desk.running("keeper")
    await desk.running("hello")
    cluster = await desk.clusters.get("hello")
    await desk.vault.keep(ports.kubeconfig(cluster.uid), b"kubeconfig")

    operation = await desk.deleted("hello")

    for asked in (desk.clusters.get("hello"), desk.clusters.nodes("hello")):
        with pytest.raises(NotFound):
            await asked
    for reference in (ports.kubeconfig(cluster.uid), ports.ssh_key(cluster.uid)):
        with pytest.raises(NotFound, match=reference):
            await desk.vault.open(reference)
    kept = await desk.clusters.get("keeper")
    assert {row.cluster for row in await desk.all(SlotRow)} == {kept.uid}
    assert {row.cluster for row in await desk.all(PoolRow)} == {kept.uid}
    assert [row.reference for row in await desk.all(SecretRow)] == [ports.ssh_key(kept.uid)]
    (record,) = await desk.all(ClusterRow, uid=cluster.uid)
    assert (record.phase, record.message) == ("gone", f"delete: deleted (op {operation.id})")
    assert (await desk.operations.get(operation.id)).stage is Stage.SUCCEEDED


async def test_a_name_lives_again_with_nothing_of_its_former_life(desk: Desk) -> None:
    await desk.running()
    before = await desk.clusters.get("hello")
    await desk.deleted()
    await desk.create(workers=1)
    after = await desk.clusters.get("hello")
    assert after.uid != before.uid
    assert (after.phase, after.published) == (Phase.PROVISIONING, False)
    assert len((await desk.clusters.nodes("hello")).slots) == 2


async def test_what_was_pushed_aside_ends_without_touching_the_cluster(desk: Desk) -> None:
    creating = await desk.creating()
    deleted = (await desk.delete()).operation
    before = await desk.clusters.get("hello")

    called_off = Cancelled.by("its caller")
    await desk.clusters.reach(Reached.badly(creating.id, Phase.ERROR, called_off))

    assert await desk.clusters.get("hello") == before
    ended = await desk.operations.get(creating.id)
    assert (ended.stage, ended.failure) == (Stage.SUPERSEDED, Cancelled.by("a delete"))
    assert ended.ended is not None
    assert await desk.journal.ended(creating.id)
    assert not await desk.journal.ended(deleted.id)


async def test_what_was_pushed_aside_cannot_bury_a_cluster(desk: Desk) -> None:
    creating = await desk.creating()
    await desk.delete()
    await desk.clusters.reach(Reached.well(creating.id, Phase.GONE, "a bug"))
    assert (await desk.clusters.get("hello")).phase is Phase.STOPPING
    assert await desk.all(SlotRow)


async def test_past_its_time_an_undo_is_fenced_off(desk: Desk) -> None:
    creating = await desk.creating()
    await desk.mark(creating.id, "machines.deploy", "m", Sighting.BEGAN)
    await desk.delete()
    await desk.operations.fence(creating.id)
    await desk.operations.fence(creating.id)
    ended = await desk.operations.get(creating.id)
    assert ended.stage is Stage.SUPERSEDED
    assert ended.ended is not None
    lines = await desk.lines(creating.id)
    assert whole(lines)
    assert lines[-1].note == "taken over before its undo had ended"
    (step,) = await desk.operations.steps(creating.id)
    assert step.note == "not heard of again"
    with pytest.raises(Conflict, match="is over"):
        await desk.mark(creating.id, "machines.release", "m", Sighting.BEGAN, undo=True)


async def test_of_many_deletes_at_once_one_is_done(desk: Desk, other_desk: Desk) -> None:
    creating = await desk.creating()
    desks = (desk, other_desk)
    answers = await asyncio.gather(
        *(
            desks[turn % 2].delete(asked=ask(f"key-{turn // 2}", method="Delete"))
            for turn in range(12)
        ),
        return_exceptions=True,
    )
    assert [answer for answer in answers if isinstance(answer, BaseException)] == []
    assert len({answer.operation.id for answer in answers if hasattr(answer, "operation")}) == 1
    assert len(await desk.operations.page(size=10)) == 2
    lines = await desk.lines(creating.id)
    assert whole(lines)
    assert [line.note for line in lines].count("superseded by a delete; undoing") == 1


async def test_a_delete_that_waited_until_its_cluster_was_gone_finds_none(
    desk: Desk, other_desk: Desk
) -> None:
    created = await desk.running()
    (row,) = await desk.all(ClusterRow)
    async with desk.database.session(writes=True) as session:
        await operations.locked(session, created.id)
        deleting = asyncio.create_task(other_desk.delete())
        if not desk.database.is_sqlite:  # there it cannot even begin
            await until(other_desk.sees_somebody_wait)
        (await session.get_one(ClusterRow, row.uid)).phase = Phase.GONE
    with pytest.raises(NotFound, match="there is no cluster hello"):
        await deleting


def test_the_partial_index_is_over_the_living() -> None:
    (index,) = ClusterRow.__table__.indexes  # type: ignore[attr-defined]
    assert str(index.dialect_options["postgresql"]["where"]) == f"phase <> '{Phase.GONE}'"
