import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import uuid4

import pytest
from sqlalchemy import event, make_url
from structlog.testing import capture_logs

from domain.cluster import Phase
from domain.errors import NotFound
from domain.machine import Sighting
from domain.operation import Event, OperationId, Reached
from store import journal, schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.store.desk import Desk, until, whole
from tests.store.wire import wire_to


async def _followed(desk: Desk, operation: OperationId, *, after: int = 0) -> list[Event]:
    return [event async for event in desk.journal.follow(operation, after=after)]


async def _next(events: AsyncIterator[Event]) -> Event:
    return await asyncio.wait_for(anext(events), timeout=10)


async def test_what_is_over_is_followed_from_its_first_line_to_its_last(desk: Desk) -> None:
    operation = await desk.running()
    assert await _followed(desk, operation.id) == await desk.lines(operation.id)


async def test_a_follower_sees_each_line_as_it_is_written(desk: Desk, other_desk: Desk) -> None:
    operation = await desk.creating()
    async with aclosing(desk.journal.follow(operation.id, after=2)) as events:
        waiting = asyncio.create_task(_next(events))
        await other_desk.mark(operation.id, "machines.deploy", "m1", Sighting.BEGAN)
        assert (await waiting).note == "machines.deploy m1 began"
        await other_desk.clusters.reach(Reached(operation=operation.id, note="half way"))
        assert (await _next(events)).note == "half way"
        await other_desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
        assert (await _next(events)).last
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_following_goes_on_where_it_was_left(desk: Desk) -> None:
    operation = await desk.running()
    lines = await desk.lines(operation.id)
    for number in range(len(lines)):
        assert await _followed(desk, operation.id, after=number) == lines[number:]


async def test_following_from_the_end_ends(desk: Desk) -> None:
    operation = await desk.running()
    last = len(await desk.lines(operation.id))
    assert await _followed(desk, operation.id, after=last) == []
    assert await _followed(desk, operation.id, after=last + 100) == []


async def test_following_from_the_latest_line_waits_for_the_next(desk: Desk) -> None:
    operation = await desk.creating()
    following = asyncio.create_task(_followed(desk, operation.id, after=2))
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    assert [event.note for event in await following] == ["ready"]


async def test_an_operation_nobody_knows_cannot_be_followed(desk: Desk) -> None:
    with pytest.raises(NotFound):
        await _followed(desk, OperationId("none"))
    with pytest.raises(NotFound):
        await desk.journal.since(OperationId("none"), 0)
    assert await desk.journal.ended(OperationId("none"))


async def test_a_journal_is_read_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "PAGE", 3)
    operation = await desk.creating()
    for number in range(10):
        await desk.clusters.reach(Reached(operation=operation.id, note=f"step {number}"))
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    assert len(await desk.lines(operation.id)) == 3
    events = await _followed(desk, operation.id)
    assert whole(events)
    assert len(events) == 13


async def test_no_follower_misses_a_line_under_many_writers(desk: Desk, other_desk: Desk) -> None:
    operation = await desk.creating()
    followers = [asyncio.create_task(_followed(at, operation.id)) for at in (desk, other_desk) * 10]
    await asyncio.gather(
        *(
            at.did(operation.id, "machines.deploy", f"{number}-{name}")
            for number in range(20)
            for name, at in (("m", desk), ("n", other_desk))
        )
    )
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    for events in await asyncio.gather(*followers):
        assert whole(events)
        assert len(events) == 83


async def test_a_lost_wake_up_costs_a_look_and_no_line(
    desk: Desk, other_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail has died; followers look for themselves."""
    monkeypatch.setattr(journal, "LOOK_SECONDS", 0.05)
    operation = await desk.creating()
    async with aclosing(desk.journal.follow(operation.id)) as events:
        await _next(events)
        await desk.tail.close()
        await _next(events)
        await other_desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
        assert (await _next(events)).note == "ready"


async def test_a_follower_who_waits_does_not_ask_all_the_time(desk: Desk) -> None:
    operation = await desk.creating()
    asked: Counter[str] = Counter()

    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.update(table for table in ("FROM journal", "IN (") if table in statement)

    event.listen(desk.database.engine.sync_engine, "before_cursor_execute", count)
    following = asyncio.create_task(_followed(desk, operation.id))
    await until(lambda: asked["IN ("] >= 10)  # so often the tail looked meanwhile
    assert asked["FROM journal"] <= 4
    await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    assert whole(await following)


async def test_a_follower_who_leaves_takes_nothing_from_the_others(
    desk: Desk, other_desk: Desk
) -> None:
    operation = await desk.creating()
    staying = asyncio.create_task(_followed(desk, operation.id))
    async with aclosing(desk.journal.follow(operation.id)) as leaving:
        await _next(leaving)
    await other_desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
    assert whole(await staying)


async def test_the_tail_wakes_those_concerned_and_rests_when_nobody_follows(
    desk: Desk, other_desk: Desk
) -> None:
    apple, banana = await desk.creating("apple"), await desk.creating("banana")
    with desk.tail.watching(apple.id) as news, desk.tail.watching(banana.id) as others:
        for known in (news, others):  # that it is there is news too
            await asyncio.wait_for(known.wait(), timeout=10)
            known.clear()
        await other_desk.clusters.reach(Reached(operation=apple.id, note="news"))
        await asyncio.wait_for(news.wait(), timeout=10)
        assert not others.is_set()
    (watching,) = (task for task in asyncio.all_tasks() if "_watch" in repr(task.get_coro()))
    await asyncio.wait_for(watching, timeout=10)
    with desk.tail.watching(apple.id) as news:
        await asyncio.wait_for(news.wait(), timeout=10)


async def test_the_tail_outlives_an_outage(postgres_url: str, seal: Seal) -> None:
    await schema.upgrade(postgres_url)
    async with wire_to(make_url(postgres_url)) as (wire, url):
        database = Database(url)
        desk = Desk(database, Secrets(database, seal))
        operation = await desk.creating(f"c-{uuid4().hex[:8]}")
        with capture_logs() as logs, desk.tail.watching(operation.id) as news:
            await asyncio.wait_for(news.wait(), timeout=10)
            news.clear()
            await wire.cut()
            await until(lambda: bool(logs))
            await wire.mend()
            await desk.clusters.reach(Reached(operation=operation.id, note="back"))
            await asyncio.wait_for(news.wait(), timeout=10)
        assert logs[0]["event"] == "journal not read"
        await desk.close()
        await database.close()


async def test_a_forgotten_operation_ends_its_followers(desk: Desk) -> None:
    operation = await desk.running()
    await desk.deleted()
    async with aclosing(desk.journal.follow(operation.id)) as events:
        await _next(events)
        await desk.operations.forget(operation.id)
        rest = [event async for event in events]  # they had been read already
        assert rest[-1].last
    with pytest.raises(NotFound):
        await _followed(desk, operation.id)
