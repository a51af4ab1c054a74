"""An app's instance may be asked for without the developer of its cluster. It is the same instance
then as by its whole key, whatever is under way with it."""

import pytest

from domain.errors import DomainError
from domain.override import Override
from domain.record import Noun
from domain.tracking import Phase
from store.engine import Database
from store.tail import Tail
from tests.workflows.edge import Site, described

INHERITED = "Setting ClusterInst developer to match App developer"
INSISTING = [Override.TRANSIENT_STATE, Override.CRM_AND_TRANSIENT_STATE]


async def running(database: Database) -> Site:
    """A site with an app in a cluster, both ready, and nothing under way."""
    site = described(database, Tail(database))
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    await site.create_app(override=Override.CRM)
    return site


async def refused(site: Site) -> tuple[tuple[str, ...], str]:
    """What is told to who asks for the instance without a developer, and the refusal."""
    with pytest.raises(DomainError) as error:
        await site.create_app(developer="")
    return error.value.preface, error.value.message


@pytest.mark.parametrize("override", INSISTING)
async def test_whoever_insists_takes_it_over(database: Database, override: Override) -> None:
    site = await running(database)
    deleting = await site.delete_app()
    made = await site.create_app(developer="", override=override)
    assert made.superseded == deleting.operation.id
    assert (await site.told(made))[0] == INHERITED


async def test_a_delete_that_failed_keeps_it_until_it_is_taken_back(database: Database) -> None:
    site = await running(database)
    await site.delete_app()
    await site.say_of("blue", Noun.APP_INST, Phase.DELETE_ERROR, "it broke")
    assert await refused(site) == ((INHERITED,), "Key already exists")


async def test_why_it_could_not_be_made_is_told_after_whose_cluster_it_is(
    database: Database,
) -> None:
    site = described(database, Tail(database))
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    await site.create_app()
    await site.say_of("blue", Noun.APP_INST, Phase.CREATE_ERROR, "it broke")
    why = "Previous create of this AppInst failed, it broke; delete it first"
    assert await refused(site) == ((INHERITED, why), "Key already exists")
