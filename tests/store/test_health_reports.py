"""What a resource manager reports of the health of what is READY: it stands in the errors, and ends
no work."""

import pytest

from domain.health_errors import LONGEST, MOST, WELL, refreshed, said_of
from domain.key_text import appinst_text, clusterinst_text
from domain.override import Override
from domain.record import Noun
from domain.standing import Report
from domain.tracking import Phase
from store.engine import Database
from store.tail import Tail
from tests.workflows.edge import Site, appinst_key, cluster_key, described

CLUSTER, APP = clusterinst_text(cluster_key("blue")), appinst_text(appinst_key("shop"))
GONE = "Health: is gone"


@pytest.fixture
async def site(database: Database) -> Site:
    site = described(database, Tail(database))
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    await site.create_app(override=Override.CRM)
    return site


async def test_what_ails_stands_in_the_errors_until_it_is_well(site: Site) -> None:
    for key, noun, name, store in (
        (CLUSTER, Noun.CLUSTER_INST, "blue", site.clusters),
        (APP, Noun.APP_INST, "shop", site.apps),
    ):
        for said, shown in (
            ((GONE,), (GONE,)),
            (("Health: is slow", "of another kind"), ("Health: is slow",)),
            ((), ("Health: is slow",)),
            ((WELL,), ()),
        ):
            report = Report(key=key, phase=Phase.READY, errors=said, runtime=("pod-1",))
            assert await store.observe(report) is None
            assert await site.errors(name, noun) == shown
    assert set((await site.phases()).values()) == {Phase.READY}
    [app] = await site.running()
    assert app.runtime == ("pod-1",)


async def test_a_report_of_health_ends_no_work(site: Site) -> None:
    """It may have been on its way when something else was asked for."""
    await site.resize_cluster()
    for errors in ((GONE,), (WELL,)):
        await site.clusters.observe(Report(key=CLUSTER, phase=Phase.READY, errors=errors))
        assert (await site.phases())["blue"] is Phase.UPDATE_REQUESTED
    assert await site.errors("blue", Noun.CLUSTER_INST) == ()
    await site.clusters.observe(Report(key=CLUSTER, phase=Phase.READY))
    assert (await site.phases())["blue"] is Phase.READY


def test_what_is_told_of_health_is_limited_and_leaves_the_rest() -> None:
    said = said_of(f"{number:03} {'x' * 1000}" for number in range(100))
    assert (len(said), {len(each) for each in said}) == (MOST, {LONGEST})
    assert said_of([]) == [WELL]
    kept = refreshed(["Update failed: no", GONE], [f"Health: {'y' * 1000}"] * 50)
    assert kept[0] == "Update failed: no"
    assert (len(kept), {len(each) for each in kept[1:]}) == (MOST + 1, {LONGEST})
