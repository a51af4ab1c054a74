"""Instances from a request to its end: what their callers are told, in which order, and what stands
then."""

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from domain.operation import Stage
from domain.override import Override
from domain.record import Noun
from domain.tracking import Phase
from domain.usage import Usage
from store.engine import Database
from store.secrets import Secrets
from tests.workflows.edge import Site, does, site
from tests.workflows.yard import yard

pytestmark = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)


@pytest.fixture
async def place(
    temporal: WorkflowEnvironment, database: Database, vault: Secrets, queues: str
) -> AsyncIterator[Site]:
    async with (
        yard(temporal.client, database, vault, queues),
        site(temporal.client, database) as place,
    ):
        yield place


async def test_a_cluster_comes_and_goes(place: Site, queues: str) -> None:
    made = await place.carry_out(await place.create_cluster(), queues)
    assert made.stage is Stage.SUCCEEDED
    assert await place.told(made) == ["Creating", "Ready", "Created successfully"]
    assert await place.phases() == {"blue": Phase.READY}
    gone = await place.carry_out(await place.delete_cluster(), queues)
    assert await place.told(gone) == ["Deleting", "NotPresent", "Deleted ClusterInst successfully"]
    assert await place.phases() == {}
    assert await place.usage() == Usage()


async def test_a_cluster_is_made_for_an_app_and_goes_with_it(place: Site, queues: str) -> None:
    made = await place.carry_out(await place.create_app(cluster="autocluster1"), queues)
    assert await place.told(made) == ["Creating", "Ready", "Created successfully"] * 2
    gone = await place.carry_out(await place.delete_app(cluster="autocluster1"), queues)
    assert await place.told(gone) == [
        *("Deleting", "NotPresent", "Deleted AppInst successfully"),
        "Deleting auto-cluster inst",
        *("Deleting", "NotPresent", "Deleted ClusterInst successfully"),
    ]
    assert await place.phases() == {}
    assert await place.usage() == Usage()


async def test_what_gives_way_goes_before_its_cluster(place: Site, queues: str) -> None:
    await place.carry_out(await place.create_cluster(), queues)
    await place.carry_out(await place.create_app("agent"), queues)
    gone = await place.carry_out(await place.delete_cluster(), queues)
    assert await place.told(gone) == [
        "Autodeleting appinst agent",
        *("Deleting", "NotPresent", "Deleted AppInst successfully"),
        *("Deleting", "NotPresent", "Deleted ClusterInst successfully"),
    ]
    assert await place.phases() == {}


async def test_a_failed_create_leaves_nothing(place: Site, queues: str) -> None:
    place.fault = does("fail", Phase.CREATE_REQUESTED, Noun.APP_INST)
    made = await place.carry_out(await place.create_app(cluster="autocluster1"), queues)
    assert await place.told(made) == [
        *("Creating", "Ready", "Created successfully"),
        *("Creating", "CreateError"),
        *("Deleting AppInst due to failure", "Deleted AppInst successfully"),
        "Deleting auto-ClusterInst due to failure",
    ]
    assert made.failure is not None
    assert made.failure.message == "Encountered failures: it broke, twice"
    assert await place.phases() == {}
    assert await place.usage() == Usage()


async def test_nobody_is_waited_for_who_is_ignored(place: Site, queues: str) -> None:
    place.fault = does("silent", Phase.CREATE_REQUESTED)
    made = await place.carry_out(
        await place.create_app(cluster="autocluster1", override=Override.CRM), queues
    )
    assert await place.told(made) == ["Created successfully"] * 2
    assert set((await place.phases()).values()) == {Phase.READY}
