"""Those who are placed at the same time share a transaction, and nothing else."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import event, select, update

from activities import placing as activities
from domain.errand import Errand, What
from domain.errors import NotFound
from domain.instance import InstanceUid, Phase, Port, Restart
from domain.placement import Amounts, Demands
from store.engine import Database
from store.node_rows import InstanceRow, NodeRow
from store.nodes import Leases
from tests.store.dock import Dock

SMALL = Amounts(cpu=5, memory=5, disk=5)


@pytest.fixture
async def dock(database: Database) -> AsyncIterator[Dock]:
    dock = Dock(database)
    yield dock
    await dock.close()


async def together(dock: Dock, uids: list[InstanceUid]) -> list[Exception | None]:
    """What became of placing them all at the same time."""
    errands = [Errand(uid=uid, what=What.PLACE, turn=(await dock.due(uid)).turn) for uid in uids]
    told = await asyncio.gather(*map(dock.placing.settle, errands), return_exceptions=True)
    return [each if isinstance(each, Exception) else None for each in told]


async def test_all_who_come_together_have_a_place_of_their_own(dock: Dock) -> None:
    for id in ("a", "b", "c"):
        await dock.node(id)
    uids = [await dock.create(f"web-{number}", limit=SMALL) for number in range(30)]
    assert await together(dock, uids) == [None] * 30
    views = [await dock.at(uid) for uid in uids]
    assert {(view.phase, view.incarnation) for view in views} == {(Phase.SCHEDULED, 1)}
    assert len({(view.node, view.ip) for view in views}) == 30
    assert await dock.balance() == {"a": 50, "b": 50, "c": 50}


async def test_those_for_whom_there_is_no_room_are_refused_and_the_others_are_not(
    dock: Dock,
) -> None:
    await dock.node("a")
    await dock.node("b")
    uids = [await dock.create(f"web-{n}", limit=Amounts(cpu=30)) for n in range(10)]
    await together(dock, uids)
    views = [await dock.at(uid) for uid in uids]
    assert Counter(view.phase for view in views) == {Phase.SCHEDULED: 6, Phase.FAILED: 4}
    refused = {view.says for view in views if view.phase is Phase.FAILED}
    assert all("a lacks 25 cpu (30 wanted" in says for says in refused)
    assert await dock.balance() == {"a": 90, "b": 90}


async def test_who_minds_others_minds_those_who_come_with_it_too(dock: Dock) -> None:
    for id in ("a", "b"):
        await dock.node(id)
    port = (Port(source=8080, destination=80), Port(destination=81))
    copies = Demands(workload="w", most_per_node=2)
    uids = [await dock.create(f"web-{n}", ports=port, limit=SMALL) for n in range(3)]
    uids += [await dock.create(f"w-{n}", demands=copies, limit=SMALL) for n in range(5)]
    uids += [await dock.create(f"plain-{n}", limit=SMALL) for n in range(2)]
    await together(dock, uids)
    views = [await dock.at(uid) for uid in uids]
    assert [Counter(view.node for view in some) for some in (views[:3], views[3:8])] == [
        {"a": 1, "b": 1, "": 1},
        {"a": 2, "b": 2, "": 1},
    ]
    assert sorted(await dock.ports()) == [
        ("a", 8080),
        ("a", 30_000),
        ("b", 8080),
        ("b", 30_000),
    ]
    assert sum((await dock.balance()).values()) == 5 * (2 + 4 + 2)


async def test_one_that_fails_does_not_fail_its_neighbours(dock: Dock) -> None:
    await dock.node("a")
    uids = [await dock.create(f"web-{number}") for number in range(4)]
    broken = update(InstanceRow).where(InstanceRow.uid == uids[1]).values(spec="{")
    async with dock.database.session(writes=True) as session:
        await session.execute(broken)
    told = await together(dock, uids)
    assert [type(each).__name__ for each in told] == ["NoneType", "ValidationError"] + [
        "NoneType"
    ] * 2
    assert await dock.balance() == {"a": 30}


async def test_a_node_that_somebody_holds_is_passed_over_while_there_is_another(
    dock: Dock,
) -> None:
    if dock.database.is_sqlite:
        pytest.skip("SQLite has one writer at a time, who holds everything")
    for id in ("a", "b"):
        await dock.node(id)
    uids = [await dock.create(f"web-{number}") for number in range(2)]
    async with dock.database.session(writes=True) as session:
        await session.execute(select(NodeRow).where(NodeRow.id == "a").with_for_update())
        await together(dock, uids[:1])
        assert (await dock.at(uids[0])).node == "b"
        await session.execute(select(NodeRow).where(NodeRow.id == "b").with_for_update())
        waiting = asyncio.create_task(together(dock, uids[1:]))
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done  # there is no other
    assert await waiting == [None]
    assert (await dock.at(uids[1])).node == "a"
    assert await dock.balance() == {"a": 10, "b": 10}


async def test_all_that_a_lost_node_carried_goes_elsewhere_in_a_few_transactions(
    dock: Dock,
) -> None:
    """Its row is written once, and nobody queues up for it."""
    await dock.node("a")
    uids = [
        await dock.runs(f"web-{number}", limit=Amounts(cpu=3), restart=Restart.ALWAYS)
        for number in range(30)
    ]
    await Dock(dock.database, Leases(lost=timedelta(0))).nodes.expire()
    await dock.node("b")
    books, begun = activities.Placing(dock.placing, dock.draining, dock.neglect), 0

    def count(_: object) -> None:
        nonlocal begun
        begun += 1

    event.listen(dock.database.engine.sync_engine, "begin", count)
    due = await asyncio.gather(*map(books.consider, uids))
    event.remove(dock.database.engine.sync_engine, "begin", count)
    assert {(each.what, each.node, each.incarnation) for each in due} == {(What.ATTEND, "b", 2)}
    assert begun <= 3 * 3, "one by one it would be a hundred"
    assert await dock.balance() == {"a": 0, "b": 90}
    assert [each.turn for each in due] == [(await dock.due(uid)).turn for uid in uids]


async def test_one_that_cannot_leave_does_not_keep_its_neighbours(dock: Dock) -> None:
    await dock.node("a")
    uids = [await dock.runs(f"web-{number}", restart=Restart.ALWAYS) for number in range(3)]
    await Dock(dock.database, Leases(lost=timedelta(0))).nodes.expire()
    broken = update(InstanceRow).where(InstanceRow.uid == uids[1]).values(spec="{")
    async with dock.database.session(writes=True) as session:
        await session.execute(broken)
    errands = [await dock.due(uid) for uid in uids]
    told = await asyncio.gather(*map(dock.placing.settle, errands), return_exceptions=True)
    assert [type(each).__name__ for each in told] == ["Errand", "ValidationError", "Errand"]
    assert await dock.balance() == {"a": 10}


async def test_who_is_not_there_does_not_keep_who_asks_with_it(dock: Dock) -> None:
    uid = await dock.create()
    nobody = InstanceUid("nobody")
    asked = (dock.placing.consider(each) for each in (nobody, uid))
    refused, due = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(refused, NotFound)
    assert isinstance(due, Errand)
