"""There is no state of an instance that a caller cannot leave by ordinary calls."""

from itertools import product

import pytest

from domain import key_text
from domain.errors import Conflict, DomainError
from domain.operation import Stage
from domain.override import Override
from domain.record import Noun
from domain.tracking import Phase
from store.edge_rows import AppInstRow, ClusterInstRow
from store.rows import OperationRow, now
from tests.store.desk import Desk
from tests.workflows.edge import Site, appinst_key, cluster_key, described

ROWS: dict[Noun, type[AppInstRow] | type[ClusterInstRow]] = {
    Noun.CLUSTER_INST: ClusterInstRow,
    Noun.APP_INST: AppInstRow,
}
KEYS = {
    Noun.CLUSTER_INST: key_text.clusterinst_text(cluster_key("blue")),
    Noun.APP_INST: key_text.appinst_text(appinst_key("shop")),
}
STATES = [
    (phase, held) for phase, held in product(Phase, (False, True)) if phase is not Phase.NOT_PRESENT
]

pytestmark = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)


@pytest.mark.parametrize("noun", ROWS)
async def test_every_state_can_be_left(noun: Noun, desk: Desk) -> None:
    """Whether or not an operation holds it still; nobody carries anything out."""
    site = described(desk.database, desk.tail)
    await site.describe()
    if noun is Noun.APP_INST:
        await site.create_cluster(override=Override.CRM)
    before = await site.phases(), await site.usage()
    for phase, held in STATES:
        await (site.create_cluster() if noun is Noun.CLUSTER_INST else site.create_app())
        if not held:
            ended = {"stage": Stage.SUCCEEDED, "ended": now()}
            await desk.change(OperationRow, ended, stage=Stage.REQUESTED)
        values = {"phase": phase}
        if noun is Noun.CLUSTER_INST:
            values["before"] = Phase.READY
        await desk.change(ROWS[noun], values, key=KEYS[noun])
        await rid(site, noun)
        assert (await site.phases(), await site.usage()) == before, (phase, held)


async def test_what_has_come_to_be_needed_is_not_waited_for(desk: Desk) -> None:
    """A static instance has come into a cluster that was to go with its cloudlet."""
    site = described(desk.database, desk.tail)
    await site.describe()
    agent = await site.create_app("agent", "autocluster1", Override.CRM)
    await site.tracking.place(agent.operation.id)
    deleting = await site.delete_cloudlet()
    await site.create_app("shop", "autocluster1", Override.CRM)
    key = key_text.clusterinst_text(cluster_key("autocluster1"))
    assert deleting
    with pytest.raises(Conflict, match="ClusterInst in use by Application Instance"):
        await site.tracking.evict(deleting.operation.id, Noun.CLUSTER_INST, key)


async def rid(site: Site, noun: Noun) -> None:
    """What somebody types who wants to be rid of it."""
    clusters = noun is Noun.CLUSTER_INST
    create = site.create_cluster if clusters else site.create_app
    delete = site.delete_cluster if clusters else site.delete_app
    override = Override.CRM_AND_TRANSIENT_STATE
    try:
        await delete(override=override)
    except DomainError:  # what could not be deleted is created again first
        await create(override=override)
        await delete(override=override)
