"""Many who want what only some can have, on either database and at several API processes: nothing
is given twice, what is given back can be had again, and whoever gets nothing is told so."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest

from domain import key_text
from domain.awaiting import Verdict
from domain.clusterinst import IpAccess
from domain.errors import DomainError
from domain.override import Override
from domain.record import Noun
from domain.tracking import Phase
from domain.usage import FIRST, LAST
from store.cloudlet_refs import written_ports
from store.edge_rows import AppInstRow, CloudletRefsRow
from store.engine import Database
from store.tail import Tail
from store.tracked import Requested
from tests.store.desk import Desk
from tests.workflows.edge import WEST, Site, appinst_key, cluster_key, described

MANY, PORTS = 60, 12
PROCESSES = 3


async def ready(database: Database) -> Site:
    """A site with a cluster, and an app that takes any one port."""
    site = described(database, Tail(database))
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    return site


@pytest.fixture
async def sites(database: Database, database_url: str) -> AsyncIterator[Sequence[Site]]:
    """The same stores in several processes, as far as the database can tell."""
    others = [Database(database_url) for _ in range(PROCESSES - 1)]
    yield [await ready(database), *(described(other, Tail(other)) for other in others)]
    for other in others:
        await other.close()


def dealt(sites: Sequence[Site], count: int) -> list[Site]:
    """At whose door each of so many callers is."""
    return [sites[number % len(sites)] for number in range(count)]


async def scarce(desk: Desk, left: int) -> None:
    """Have only so many ports left to be given."""
    ports = written_ports(dict.fromkeys(range(FIRST, LAST + 1 - left), 3))
    await desk.change(CloudletRefsRow, {"ports": ports}, cloudlet=key_text.cloudlet_text(WEST))


async def outcome(asking: object) -> str:
    try:
        await asking  # type: ignore[misc]
    except DomainError as error:
        return error.message
    return "accepted"


async def test_a_port_is_given_once(sites: Sequence[Site], desk: Desk) -> None:
    site = sites[0]
    names = [f"app{number}" for number in range(MANY)]
    for name in names:
        await site.describe_app(name, access_ports="tcp:22")
    await scarce(desk, PORTS)
    doors = zip(dealt(sites, MANY), names, strict=True)
    asking = [door.create_app(name) for door, name in doors]
    outcomes = Counter(await asyncio.gather(*map(outcome, asking)))
    assert outcomes == {"accepted": PORTS, "no free external ports": MANY - PORTS}
    taken = [port.public for each in await site.running() for port in each.instance.ports]
    assert sorted(taken) == list(range(LAST + 1 - PORTS, LAST + 1))
    for each in await site.running():
        override = Override.CRM_AND_TRANSIENT_STATE
        await site.delete_app(each.instance.key.app, override=override)
    usage = await site.usage()
    assert not usage.ports.keys() & set(taken)
    rows = await desk.all(AppInstRow)
    assert rows == []


async def test_one_of_two_who_want_the_same_gets_it(sites: Sequence[Site]) -> None:
    site = sites[0]
    asking = [door.create_cluster("red", nodes=2) for door in dealt(sites, 6)]
    outcomes = Counter(await asyncio.gather(*map(outcome, asking)))
    assert outcomes == {"accepted": 1, "Key already exists": 5}
    asking = [door.create_app() for door in dealt(sites, 6)]
    outcomes = Counter(await asyncio.gather(*map(outcome, asking)))
    assert outcomes == {"accepted": 1, "Key already exists": 5}
    machines = 2 + 3
    assert (await site.usage()).vcores == 2 * machines
    insisting = Override.CRM_AND_TRANSIENT_STATE
    asking = [door.delete_cluster("red", insisting) for door in dealt(sites, 4)]
    assert Counter(await asyncio.gather(*map(outcome, asking)))["accepted"] == 1


async def test_addresses_are_given_once(sites: Sequence[Site]) -> None:
    asking = [
        door.create_cluster(f"own{number}", ip_access=IpAccess.DEDICATED)
        for number, door in enumerate(dealt(sites, 8))
    ]
    outcomes = Counter(await asyncio.gather(*map(outcome, asking)))
    assert outcomes == {"accepted": 4, "No more dynamic IPs left": 4}
    assert (await sites[0].usage()).addresses == 4


async def test_what_is_said_and_asked_at_once_leaves_the_sums_true(
    database: Database, desk: Desk
) -> None:
    """Creates, changes, deletes and what a resource manager says of them, all at the same time."""
    site = await ready(database)
    names = [f"c{number}" for number in range(6)]

    async def live(name: str) -> None:
        made = await site.create_cluster(name)
        key = key_text.clusterinst_text(cluster_key(name))
        for phase in (Phase.CREATING, Phase.READY):
            await site.say(Noun.CLUSTER_INST, key, phase)
        await settled(site, made)
        app = await site.create_app(cluster=name)
        inside = key_text.appinst_text(appinst_key("shop", name))
        await site.say(Noun.APP_INST, inside, Phase.READY)
        await settled(site, app)
        changed = await site.resize_cluster(name, 4)
        await site.say(Noun.CLUSTER_INST, key, Phase.UPDATE_ERROR, "no")
        outlook = await site.tracking.settle(changed.operation.id)
        assert outlook.failure is not None
        await site.tracking.take_back(changed.operation.id, outlook.failure)
        await site.delete_app(cluster=name)
        await site.say(Noun.APP_INST, inside, Phase.NOT_PRESENT)

    await asyncio.gather(*map(live, names))
    standing = await site.clusters.page("", 99)
    assert {each.phase for each in standing} == {Phase.READY}
    assert {each.cluster.nodes for each in standing} == {1}
    usage = await site.usage()
    assert (usage.vcores, usage.ports) == (2 * 2 * len(standing), {})
    refs = await site.refs.get(key_text.cloudlet_text(WEST))
    assert refs is not None
    assert sorted(refs.clusters) == sorted(each.cluster.key.cluster for each in standing)


async def settled(site: Site, requested: Requested) -> None:
    """What was ended when it was heard that all is ready is found ended."""
    outlook = await site.tracking.settle(requested.operation.id)
    assert outlook.verdict is Verdict.OVER
