"""Looking out for changes, told or not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from time import monotonic

import pytest

from domain.operation import Ask
from domain.record import Noun, Record
from store import lookout
from store.engine import Database
from store.lookout import Lookout
from store.shelf import Shelf
from tests.support.load import limit

ASK = Ask(method="any")
SECONDS = 40


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    """Another process at the same database, as far as the database can tell."""
    database = Database(database_url)
    yield database
    await database.close()


def operator(name: str) -> Record:
    return Record(noun=Noun.OPERATOR, key=name, value=b"")


async def test_sees_what_others_change_from_its_place_on(
    database: Database, other: Database
) -> None:
    shelf = Shelf(other)
    await shelf.create(operator("before"), [], ASK)
    follower = Lookout(database)
    place = await follower.place()
    await shelf.create(operator("between"), [], ASK)
    seen = []
    async with limit(SECONDS), aclosing(follower.follow(place)) as changes:
        async for some in changes:
            seen += [change.key for change in some]
            if seen[-1] == "after":
                break
            await shelf.create(operator("after"), [], ASK)
    assert seen == ["between", "after"]


async def test_postgresql_tells(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking by itself is made to come too late."""
    if database.is_sqlite:
        pytest.skip("SQLite tells nobody")
    monkeypatch.setattr(lookout, "LOOK_SECONDS", 3600.0)
    follower = Lookout(database)
    place = await follower.place()
    async with limit(SECONDS), aclosing(follower.follow(place)) as changes:
        waiting = asyncio.ensure_future(anext(changes))
        began = monotonic()
        while monotonic() - began < SECONDS:  # it may not listen yet when the first is written
            await Shelf(other).create(operator(f"{monotonic()}"), [], ASK)
            done, _ = await asyncio.wait([waiting], timeout=1)
            if done:
                break
        assert await waiting
