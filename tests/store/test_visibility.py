"""What is shown while transactions are open, ours and those of others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from domain.happening import Happening, Kind
from domain.happening import Place as Seen
from domain.operation import Ask
from domain.record import Noun, Record
from domain.report import Item, Report
from store import changes
from store.changes import Changes, Place
from store.engine import Database
from store.shelf import Shelf
from store.window import FleetWindow

ASK = Ask(method="any")
START = Place()


@asynccontextmanager
async def open_elsewhere(database: Database, name: str | None) -> AsyncIterator[None]:
    """A transaction of somebody else that has written, in this database or another."""
    url = database.url.set(database=name) if name else database.url
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        await connection.execute(text("CREATE TEMPORARY TABLE others (at int)"))
        assert await connection.scalar(text("SELECT pg_current_xact_id_if_assigned() IS NOT NULL"))
        yield
        await connection.rollback()
    await engine.dispose()


async def keys(database: Database) -> list[str]:
    return [change.key for change in await Changes(database).since(START)]


@pytest.mark.parametrize("where", [None, "postgres"], ids=["here", "in another database"])
async def test_b7_a_transaction_of_somebody_else_holds_no_change_back(
    database: Database, where: str | None
) -> None:
    if database.is_sqlite:
        pytest.skip("writers take turns there, whoever they are")
    window = FleetWindow(database, log_bytes=1000)
    async with open_elsewhere(database, where):
        place = await Changes(database).newest()
        await Shelf(database).create(Record(noun=Noun.OPERATOR, key="a", value=b""), [], ASK)
        assert [change.key for change in await Changes(database).since(place)] == ["a"]
        happening = Happening(kind=Kind.POD_STARTED, id="p", name="p", time_ns=1)
        await window.take(Report(node="n", epoch="e", items=(Item(number=1, what=happening),)))
        assert [each.happening for each in await window.happened(Seen())] == [happening]
        assert await window.now() != Seen()


async def test_b7_a_transaction_of_ours_holds_back_what_was_numbered_after_it(
    database: Database, other: Database
) -> None:
    """Whoever read past it would never see what it wrote."""
    if database.is_sqlite:
        pytest.skip("writers take turns there")
    async with database.session(writes=True) as slow:
        await changes.note(slow, Noun.OPERATOR, ["first"])
        await _write(other, "second")
        assert await keys(database) == []
        begins_after = await Changes(other).newest()
    assert await keys(database) == ["first", "second"]
    late = await Changes(database).since(begins_after)
    assert [change.key for change in late] == ["first", "second"]


async def test_b7_nobody_misses_a_change_however_they_overlap(
    database: Database, other: Database
) -> None:
    """Many write at once, and a follower reads on all the while."""
    wanted = {f"{number}" for number in range(60)}
    seen: list[str] = []

    async def write(each: str) -> None:
        await _write((database, other)[int(each) % 2], each)

    async def follow() -> None:
        place = await Changes(other).newest()
        started.set()
        while len(seen) < len(wanted):
            for change in await Changes(other).since(place):
                seen.append(change.key)
                place = change.place

    started = asyncio.Event()
    following = asyncio.create_task(follow())
    await started.wait()
    await asyncio.gather(*(write(each) for each in wanted))
    await asyncio.wait_for(following, 120)
    assert sorted(seen) == sorted(wanted)


async def _write(database: Database, key: str) -> None:
    async with database.session(writes=True) as session:
        await changes.note(session, Noun.OPERATOR, [key])


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    other = Database(make_url(database_url).render_as_string(hide_password=False))
    yield other
    await other.close()
