"""What one developer may keep, on either database."""

import pytest

from domain.app import App, ImageType
from domain.errors import Exhausted
from domain.operation import Ask
from domain.record import Link, Noun, Record
from store.apps import Apps
from store.engine import Database
from store.quotas import Quota

ASK = Ask(tenant="default", caller="ada", method="a.B/C", key="", digest="")


def app(name: str, size: int, developer: str = "acme") -> Record:
    facts = App(
        developer=developer,
        name=name,
        version="1.0",
        image_type=ImageType.QCOW,
        default_flavor="small",
        deployment="vm",
    ).model_dump_json()
    links = (Link(to=Noun.DEVELOPER, key=developer, yields=False),)
    key = f"{developer}/{name}"
    return Record(noun=Noun.APP, key=key, value=b"x" * size, facts=facts, links=links)


async def refused(apps: Apps, record: Record) -> str:
    with pytest.raises(Exhausted) as found:
        await apps.create(record, None, [], ASK)
    assert found.value.subject == "acme"
    return found.value.reason


async def test_a_developer_keeps_so_many_records_and_others_keep_theirs(
    database: Database,
) -> None:
    apps = Apps(database, quota=Quota(records=2, size=1000))
    for name in ("a", "b"):
        await apps.create(app(name, 10), None, [], ASK)
    assert await refused(apps, app("c", 10)) == "QUOTA_EXCEEDED"
    await apps.create(app("c", 10, "other"), None, [], ASK)


async def test_a_developer_keeps_so_many_bytes(database: Database) -> None:
    apps = Apps(database, quota=Quota(records=100, size=1000))
    await apps.create(app("a", 900), None, [], ASK)
    assert await refused(apps, app("b", 101)) == "QUOTA_EXCEEDED"
    await apps.create(app("b", 100), None, [], ASK)
    with pytest.raises(Exhausted):
        await apps.replace(app("b", 100), app("b", 101), None, [], ASK)
    assert await apps.replace(app("a", 900), app("a", 500), None, [], ASK)
    assert await apps.replace(app("b", 100), app("b", 500), None, [], ASK)


async def test_who_keeps_too_much_may_make_it_smaller(database: Database) -> None:
    await Apps(database).create(app("a", 5000), None, [], ASK)
    apps = Apps(database, quota=Quota(records=1, size=1000))
    assert await apps.replace(app("a", 5000), app("a", 4000), None, [], ASK)
