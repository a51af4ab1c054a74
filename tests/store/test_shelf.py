"""Records on the shelf: who names whom holds under any number of writers."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta

import pytest
from sqlalchemy import text

from domain.app import App, Claim
from domain.errors import DomainError
from domain.operation import Ask
from domain.record import USES, Link, Need, Noun, Record, Use
from domain.refusal import Refusal
from store.apps import Apps
from store.changes import Changes, Place
from store.engine import Database
from store.shelf import Shelf

ASK = Ask(method="any")
ROUNDS = 15


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    """Another process at the same database, as far as the database can tell."""
    database = Database(database_url)
    yield database
    await database.close()


def flavor(name: str = "small") -> Record:
    return Record(noun=Noun.FLAVOR, key=name, value=name.encode())


def operator(name: str, value: bytes = b"") -> Record:
    return Record(noun=Noun.OPERATOR, key=name, value=value)


def app(name: str, *, needs: str = "small", yields: bool = False) -> Record:
    link = Link(to=Noun.FLAVOR, key=needs, yields=yields)
    facts = App(developer="acme", name=name, version="1.0", auto_delete=yields).model_dump_json()
    return Record(noun=Noun.APP, key=name, value=needs.encode(), links=(link,), facts=facts)


def need(name: str = "small") -> list[Need]:
    return [Need(to=Noun.FLAVOR, key=name, refusal=Refusal.APP_FLAVOR)]


async def outcome(work: Awaitable[object]) -> str:
    """The reason it was refused for, or nothing."""
    try:
        await work
    except DomainError as error:
        return error.reason
    return ""


async def there(shelf: Shelf, noun: Noun) -> list[str]:
    return [kept.key for kept in await shelf.page(noun, "", 1000)]


async def test_nobody_names_what_is_gone(database: Database, other: Database) -> None:
    """A flavor is deleted while apps that need it are made: it is in use, or they find none."""
    one, two = Shelf(database), Shelf(other)
    refused: set[str] = set()
    for number in range(ROUNDS):
        await one.create(flavor(), [], ASK)
        works = [
            *(two.create(app(f"{number}-{n}"), need(), ASK) for n in range(3)),
            one.delete(Noun.FLAVOR, "small", ASK),
        ]
        random.shuffle(works)
        refused.update(await asyncio.gather(*map(outcome, works)))
        apps, flavors = await there(one, Noun.APP), await there(one, Noun.FLAVOR)
        assert flavors or not apps
        for key in apps:
            await one.delete(Noun.APP, key, ASK)
        if flavors:
            await one.delete(Noun.FLAVOR, "small", ASK)
    assert refused == {"", "FLAVOR_IN_USE", "APP_FLAVOR"}, "both ends were seen"


async def test_what_moved_on_is_not_taken_along(database: Database, other: Database) -> None:
    """An app that yields is given another flavor while its flavor is deleted: it goes before that
    or stays, and never names what is not there."""
    one, apps = Shelf(database), Apps(other)
    stayed = set()
    for _ in range(ROUNDS):
        for name in ("small", "large"):
            await one.create(flavor(name), [], ASK)
        before, after = app("a", yields=True), app("a", needs="large", yields=True)
        await one.create(before, need(), ASK)
        deleted, changed = await asyncio.gather(
            outcome(one.delete(Noun.FLAVOR, "small", ASK)),
            outcome(apps.replace(before, after, None, need("large"), ASK)),
        )
        assert deleted == ""
        assert (await there(one, Noun.APP) == ["a"]) is (changed == "")
        stayed.add(changed)
        await one.delete(Noun.FLAVOR, "large", ASK)
        assert await there(one, Noun.APP) == []
    assert stayed <= {"", "KEY_UNKNOWN"}


async def test_one_of_many_makes_a_record(database: Database, other: Database) -> None:
    shelves = [Shelf(database), Shelf(other)]
    works = [shelves[n % 2].create(operator("one"), [], ASK) for n in range(20)]
    refused = await asyncio.gather(*map(outcome, works))
    assert sorted(refused) == [""] + ["KEY_TAKEN"] * 19


async def test_an_android_package_is_one_apps(database: Database, other: Database) -> None:
    stores = [Apps(database), Apps(other)]
    link = Link(to=Noun.ANDROID_PACKAGE, key="com.x")
    works = []
    for n in range(12):
        owned = App(developer="acme", name=f"app-{n % 4}", version=str(n))
        claim = Claim(owner=owned.owner, package="com.x", link=link)
        record = Record(
            noun=Noun.APP, key=str(n), value=b"", links=(link,), facts=owned.model_dump_json()
        )
        works.append(stores[n % 2].create(record, claim, [], ASK))
    refused = await asyncio.gather(*map(outcome, works))
    assert sorted(refused) == [""] * 3 + ["APP_ANDROID"] * 9


async def test_no_change_is_lost(database: Database, other: Database) -> None:
    shelves = [Shelf(database), Shelf(other)]
    await shelves[0].create(operator("one", b"0"), [], ASK)

    def counted(value: bytes) -> Record:
        return operator("one", str(int(value) + 1).encode())

    works = [shelves[n % 2].change(Noun.OPERATOR, "one", counted, ASK) for n in range(40)]
    await asyncio.gather(*works)
    assert await shelves[0].get(Noun.OPERATOR, "one") == b"40"


async def test_strict_needs_are_looked_at_last(database: Database) -> None:
    strict = Shelf(database, strict=True)
    needs = [
        Need(to=Noun.DEVELOPER, key="d", refusal=Refusal.STRICT_DEVELOPER, strict=True),
        *need(),
    ]
    links = tuple(Link(to=each.to, key=each.key) for each in needs)
    made = app("a").model_copy(update={"links": links})
    assert await outcome(strict.create(made, needs, ASK)) == "APP_FLAVOR"
    await strict.create(flavor(), [], ASK)
    assert await outcome(strict.create(made, needs, ASK)) == "STRICT_DEVELOPER"
    await Shelf(database).create(made, needs, ASK)
    assert await outcome(strict.create(made, needs, ASK)) == "KEY_TAKEN"


@pytest.mark.parametrize(
    ("noun", "use"),
    [(noun, use) for noun, uses in USES.items() for use in uses],
    ids=lambda each: each.refusal.name if isinstance(each, Use) else None,
)
async def test_whoever_is_named_stays(database: Database, noun: Noun, use: Use) -> None:
    shelf = Shelf(database, strict=True)
    await shelf.create(Record(noun=noun, key="named", value=b""), [], ASK)
    naming = Record(noun=use.by, key="naming", value=b"", links=(Link(to=noun, key="named"),))
    await shelf.create(naming, [], ASK)
    assert await outcome(shelf.delete(noun, "named", ASK)) == use.refusal.name
    assert await outcome(Shelf(database).delete(noun, "named", ASK)) == (
        "" if use.strict else use.refusal.name
    )
    await shelf.delete(use.by, "naming", ASK)


async def test_keys_are_sorted_as_bytes(database: Database) -> None:
    shelf = Shelf(database)
    names = ["é", "a", "B", "_", "~", "a b", "aB", "ab"]
    for name in names:
        await shelf.create(operator(name), [], ASK)
    wanted = sorted(names, key=str.encode)
    assert await there(shelf, Noun.OPERATOR) == wanted
    assert [it.key for it in await shelf.page(Noun.OPERATOR, "a", 2)] == ["aB", "a b"][::-1]


async def test_every_write_leaves_a_change(database: Database) -> None:
    shelf, changes = Shelf(database), Changes(database)
    await shelf.create(flavor(), [], ASK)
    await shelf.create(app("a", yields=True), need(), ASK)
    await shelf.create(operator("o"), [], ASK)
    await shelf.change(Noun.OPERATOR, "o", lambda _: operator("o", b"new"), ASK)
    await shelf.change(Noun.OPERATOR, "o", lambda _: operator("o", b"new"), ASK)
    assert await outcome(shelf.delete(Noun.OPERATOR, "none", ASK))
    await shelf.delete(Noun.FLAVOR, "small", ASK)
    seen = await changes.since(Place())
    assert [(change.noun, change.key) for change in seen] == [
        *((Noun.FLAVOR, "small"), (Noun.APP, "a"), (Noun.OPERATOR, "o"), (Noun.OPERATOR, "o")),
        *((Noun.APP, "a"), (Noun.FLAVOR, "small")),
    ]
    assert await changes.since(seen[-1].place) == []
    assert list(await changes.since(seen[3].place)) == list(seen[4:])


async def test_a_number_is_given_out_once(database: Database) -> None:
    shelf, changes = Shelf(database), Changes(database)
    await shelf.create(operator("o"), [], ASK)
    [first] = await changes.since(Place())
    await changes.forget(timedelta(hours=1))
    assert await changes.since(Place())
    await changes.forget(timedelta(seconds=-1))
    assert await changes.since(Place()) == []
    await shelf.create(operator("p"), [], ASK)
    assert [change.key for change in await changes.since(first.place)] == ["p"]


async def test_a_follower_never_passes_a_write_that_is_still_open(
    database: Database, other: Database
) -> None:
    """On SQLite the later writer waits; on PostgreSQL the later change does."""
    if database.is_sqlite:
        pytest.skip("writers take turns")
    shelf, changes = Shelf(other), Changes(database)
    async with database.session(writes=True) as session:
        await session.execute(
            text(
                "INSERT INTO changes (era, noun, key, time) "
                "VALUES (pg_current_xact_id()::text::bigint, 'Operator', 'slow', now())"
            )
        )
        await shelf.create(operator("quick"), [], ASK)
        assert await changes.since(Place()) == []
    seen = await changes.since(Place())
    assert [change.key for change in seen] == ["slow", "quick"]


async def test_followers_miss_nothing(database: Database, other: Database) -> None:
    shelves, changes = [Shelf(database), Shelf(other)], Changes(database)
    wanted = {f"{n:03}" for n in range(100)}
    seen: set[str] = set()
    place = Place()

    async def follow() -> None:
        nonlocal place
        while seen != wanted:
            for change in await changes.since(place):
                assert change.key not in seen
                seen.add(change.key)
                place = change.place
            await asyncio.sleep(0)

    writing = [
        shelves[n % 2].create(operator(key), [], ASK) for n, key in enumerate(sorted(wanted))
    ]
    await asyncio.gather(follow(), *writing)
