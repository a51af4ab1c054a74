"""What is forgotten of instances, and what is not."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from domain.errand import What
from domain.errors import NotFound
from domain.instance import Call, InstanceUid, Phase, Restart
from store.engine import Database
from store.node_rows import InstanceEventRow, InstanceRow
from store.purging import LINES, Purging
from store.rows import now
from tests.store.dock import Dock

DAY, WEEK = timedelta(days=1), timedelta(days=7)


@pytest.fixture
async def dock(database: Database) -> AsyncIterator[Dock]:
    dock = Dock(database)
    await dock.node("a")
    await dock.steady()
    yield dock
    await dock.close()


async def over(dock: Dock, id: str, *, days: float) -> InstanceUid:
    """An instance that was over so long ago, with nothing left of it."""
    uid = await dock.create(id)
    await dock.instances.ask_for("default", id, Call.DESTROY)
    await dock.settle(uid, What.END)
    assert (await dock.due(uid)).what is What.OVER
    await aged(dock, uid, days)
    return uid


async def aged(dock: Dock, uid: InstanceUid, days: float) -> None:
    then = now() - timedelta(days=days)
    async with dock.database.session(writes=True) as session:
        mine = InstanceRow.uid == uid
        await session.execute(update(InstanceRow).where(mine).values(ended=then, heard=then))


async def lines(dock: Dock, uid: InstanceUid) -> list[int]:
    async with dock.database.session(writes=False) as session:
        mine = select(InstanceEventRow.number).where(InstanceEventRow.uid == uid)
        return list(await session.scalars(mine.order_by(InstanceEventRow.number)))


async def left(dock: Dock) -> set[str]:
    async with dock.database.session(writes=False) as session:
        return set(await session.scalars(select(InstanceRow.id)))


async def test_what_is_long_over_is_forgotten_with_its_journal(dock: Dock) -> None:
    old, _ = await over(dock, "old", days=8), await over(dock, "new", days=6)
    await dock.create("lives")
    await Purging(dock.database, WEEK, 100, DAY).run()
    assert await left(dock) == {"new", "lives"}
    assert await lines(dock, old) == []
    with pytest.raises(NotFound):
        await dock.instances.get("default", "old")


async def test_too_many_go_sooner_but_not_before_their_pods(dock: Dock) -> None:
    """An id used again would count from the beginning, and its agent would refuse it."""
    for days in (5, 4, 3, 0.5):
        await over(dock, f"{days}", days=days)
    await Purging(dock.database, WEEK, 2, DAY).run()
    assert await left(dock) == {"3", "0.5"}
    await Purging(dock.database, WEEK, 0, DAY).run()
    assert await left(dock) == {"0.5"}
    await Purging(dock.database, timedelta(0), 0, DAY).run()
    assert await left(dock) == {"0.5"}


async def test_who_left_a_copy_somewhere_is_not_forgotten(dock: Dock) -> None:
    uid = await dock.placed("web-1")
    await dock.says(uid, Phase.RUNNING)
    await dock.says(uid, Phase.FAILED, "crashed")
    assert (await dock.due(uid)).what is What.CLEAN
    await aged(dock, uid, 30)
    await Purging(dock.database, WEEK, 0, DAY).run()
    assert await left(dock) == {"web-1"}


async def test_of_what_lives_for_long_the_newest_lines_are_kept(dock: Dock) -> None:
    uid = await dock.create()
    async with dock.database.session(writes=True) as session:
        for number in range(2, LINES + 11):
            session.add(
                InstanceEventRow(
                    **{"uid": uid, "number": number, "time": now(), "phase": Phase.SCHEDULING},
                    **{"says": "", "node": "", "incarnation": 0},
                )
            )
        mine = InstanceRow.uid == uid
        await session.execute(update(InstanceRow).where(mine).values(events=LINES + 10))
    await Purging(dock.database, WEEK, 100, DAY).run()
    kept = await lines(dock, uid)
    assert (len(kept), kept[0], kept[-1]) == (LINES, 11, LINES + 10)
    async with dock.database.session(writes=False) as session:
        assert await session.scalar(select(func.count(InstanceRow.uid))) == 1


async def test_who_left_a_copy_on_a_node_that_is_away_is_remembered_until_it_is_gone(
    dock: Dock,
) -> None:
    """Its node may come back after months, and have it run on if nobody knew of it."""
    uid = await dock.runs("web-1", restart=Restart.ALWAYS)
    await dock.nodes.unregister("a")
    await dock.instances.ask_for("default", "web-1", Call.DESTROY)
    await dock.settle(uid, What.LEAVE)
    assert (await dock.due(uid)).what is What.OVER
    await aged(dock, uid, 30)
    for most in (100, 0):
        await Purging(dock.database, WEEK, most, DAY).run()
    assert await left(dock) == {"web-1"}
    await dock.node("a")
    assert await dock.neglect.unattended(DAY) == [uid]
    await dock.done(uid, What.CLEAN)
    assert (await dock.due(uid)).what is What.OVER
    await aged(dock, uid, 30)
    await Purging(dock.database, WEEK, 100, DAY).run()
    assert await left(dock) == set()
