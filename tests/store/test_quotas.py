"""What one developer may keep, and how many operations of one user may run, on either database."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest

from activities import tracking as activities
from domain.app import App, ImageType
from domain.awaiting import Verdict
from domain.errors import Exhausted
from domain.key_text import name_text
from domain.operation import Ask, Kind
from domain.override import Override
from domain.record import Link, Noun, Record
from domain.tracking import Phase
from store.apps import Apps
from store.clusters import Clusters
from store.engine import Database
from store.quotas import UNLIMITED, Quota
from store.secrets import Secrets
from store.tail import Tail
from store.tracked import Terms
from store.tracking import Tracking
from tests.store.desk import BUILDING, RELEASE, Desk, order
from tests.store.desk import ask as asked_by
from tests.workflows.edge import Site, described

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


AT_ONCE, MAY = 12, 4

Opened = Callable[..., Database]


@pytest.fixture
async def opened(database: Database, database_url: str) -> AsyncIterator[Opened]:
    """The same database as other processes have it, with terms of their own."""
    others = []

    def more(operations_per_user: int | None = None) -> Database:
        others.append(Database(database_url, operations_per_user=operations_per_user))
        return others[-1]

    yield more
    for other in others:
        await other.close()


async def site_of(database: Database, quota: Quota = UNLIMITED) -> Site:
    """A site whose developer, acme, keeps three apps."""
    site = described(database, Tail(database), Terms(quota=quota))
    await site.describe()
    return site


async def reason(asking: Awaitable[object]) -> str:
    try:
        await asking
    except Exhausted as error:
        return error.reason
    return "accepted"


async def outcomes(asking: Iterable[Awaitable[object]]) -> dict[str, int]:
    return Counter(await asyncio.gather(*map(reason, asking)))


async def test_a12_clusters_and_instances_count_in_the_quota_of_their_developer(
    database: Database,
) -> None:
    site = await site_of(database, Quota(records=3, size=2**20))
    await site.create_cluster("blue", Override.CRM)
    await site.create_app("shop", override=Override.CRM)
    await site.create_app("other", override=Override.CRM)
    assert await reason(site.create_cluster("red")) == "QUOTA_EXCEEDED"
    assert await reason(site.create_app("agent")) == "QUOTA_EXCEEDED"
    await site.delete_app("other", override=Override.CRM)
    assert await reason(site.create_cluster("red")) == "accepted"


async def test_a12_the_bytes_of_clusters_and_instances_count(database: Database) -> None:
    site = await site_of(database, Quota(records=100, size=1))
    assert await reason(site.create_cluster("blue")) == "QUOTA_EXCEEDED"
    assert await site.phases() == {}


async def test_a12_apps_count_with_what_runs_of_them(database: Database) -> None:
    site = await site_of(database)
    await site.create_cluster("blue", Override.CRM)
    apps = Apps(database, quota=Quota(records=2, size=2**20))
    mine, another = name_text("acme"), name_text("other")
    await apps.create(app("a", 10, mine), None, [], ASK)
    with pytest.raises(Exhausted):
        await apps.create(app("b", 10, mine), None, [], ASK)
    await apps.create(app("b", 10, another), None, [], ASK)


async def test_a12_an_instance_counts_before_its_cluster_is_made(database: Database) -> None:
    site = await site_of(database, Quota(records=1, size=2**20))
    assert await reason(site.create_app("shop", "autocluster1")) == "QUOTA_EXCEEDED"
    assert await site.phases() == {}
    larger = described(database, Tail(database), Terms(quota=Quota(records=2, size=2**20)))
    assert await reason(larger.create_app("shop", "autocluster1")) == "accepted"


async def test_a12_an_instance_is_refused_for_good_once_its_cluster_is_made(
    database: Database,
) -> None:
    site = await site_of(database)
    requested = await site.create_app("shop", "autocluster1")
    for phase in (Phase.CREATING, Phase.READY):
        await site.say_of("autocluster1", Noun.CLUSTER_INST, phase)
    full = Tracking(database, Terms(quota=Quota(records=1, size=2**20)))
    outlook = await activities.Tracking(full).place(requested.operation.id)
    assert outlook.verdict is Verdict.FAILED
    assert outlook.failure is not None
    assert outlook.failure.reason == "QUOTA_EXCEEDED"


async def test_a12_creates_at_the_same_moment_do_not_pass_the_quota_together(
    database: Database, opened: Opened
) -> None:
    await site_of(database)
    terms = Terms(quota=Quota(records=MAY, size=2**20))
    sites = [described(each, Tail(each), terms) for each in (database, opened(), opened())]
    names = [f"c{number}" for number in range(AT_ONCE)]
    asking = (sites[number % 3].create_cluster(name) for number, name in enumerate(names))
    assert await outcomes(asking) == {"accepted": MAY, "QUOTA_EXCEEDED": AT_ONCE - MAY}


async def test_a12_apps_at_the_same_moment_do_not_pass_the_quota_together(
    database: Database, opened: Opened
) -> None:
    quota = Quota(records=MAY, size=2**20)
    stores = [Apps(each, quota=quota) for each in (database, opened(), opened())]
    records = [app(f"a{number}", 10) for number in range(AT_ONCE)]
    asking = (
        stores[number % 3].create(record, None, [], ASK) for number, record in enumerate(records)
    )
    assert await outcomes(asking) == {"accepted": MAY, "QUOTA_EXCEEDED": AT_ONCE - MAY}


async def test_a12_operations_of_one_user_that_run_are_limited(
    desk: Desk, opened: Opened, vault: Secrets
) -> None:
    clusters = Clusters(opened(2), vault)

    async def create(name: str, caller: str = "ann", key: str = "") -> str:
        asked = asked_by(key, caller=caller)
        return await reason(clusters.request_create(order(name), RELEASE, BUILDING, asked))

    assert [await create("a"), await create("b", key="again")] == ["accepted", "accepted"]
    assert await create("c") == "TOO_MANY_OPERATIONS"
    assert await create("b", key="again") == "accepted", "a repeat asks for nothing more"
    assert await create("c", "bob") == "accepted"
    gone = await clusters.request_delete("a", asked_by(method="Delete"))
    assert gone.operation.kind is Kind.DELETE_CLUSTER, "a delete is not refused"
    assert await create("d") == "TOO_MANY_OPERATIONS"


async def test_a12_operations_at_the_same_moment_do_not_pass_the_limit_together(
    desk: Desk, opened: Opened, vault: Secrets
) -> None:
    stores = [Clusters(opened(MAY), vault) for _ in range(3)]
    asking = (
        stores[number % 3].request_create(order(f"c{number}"), RELEASE, BUILDING, asked_by())
        for number in range(AT_ONCE)
    )
    assert await outcomes(asking) == {"accepted": MAY, "TOO_MANY_OPERATIONS": AT_ONCE - MAY}


async def test_a12_what_runs_at_the_edge_is_limited_and_ends(
    database: Database, opened: Opened
) -> None:
    await site_of(database)
    mine = opened(2)
    site = described(mine, Tail(mine))
    await site.create_cluster("blue", Override.CRM)  # over at once
    assert await reason(site.create_cluster("red")) == "accepted"
    assert await reason(site.create_app("shop", "autocluster1")) == "accepted"  # with its part
    assert await reason(site.create_app("other")) == "TOO_MANY_OPERATIONS"
    assert await reason(site.resize_cluster("blue")) == "TOO_MANY_OPERATIONS"
    await site.delete_cluster("red", Override.CRM_AND_TRANSIENT_STATE)
    assert await reason(site.create_app("other")) == "accepted"
