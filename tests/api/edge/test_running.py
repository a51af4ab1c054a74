"""Clusters and apps from the call to the cloudlet and back: the API, a worker, and a resource
manager that carries out what it is told, each over its real wire."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from agent.crm.crm import Crm
from agent.crm.platform import Standing
from agent.crm.simulated import Simulated
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import READY
from protos.gen.edge.refs_pb2 import CloudletRefs
from settings import Settings, Temporal
from sim.crm import practice
from sim.faults import Faults
from sim.troubles import fault
from store.engine import Database
from store.secrets import Secrets
from tests.api.caller import Caller
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.support.load import limit
from tests.workflows.yard import yard

SECONDS = 50

pytestmark = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)


@pytest.fixture
def settings(settings: Settings, temporal: WorkflowEnvironment, queues: str) -> Settings:
    address = temporal.client.service_client.config.target_host
    changed = Temporal(address=address, queue_prefix=queues)
    return settings.model_copy(update={"temporal": changed})


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
async def crm(
    caller: Caller,
    edge: Edge,
    temporal: WorkflowEnvironment,
    database: Database,
    vault: Secrets,
    queues: str,
    faults: Faults,
) -> AsyncIterator[Crm]:
    """A cloudlet that is described and managed."""
    for verb, message in (
        ("CreateFlavor", stubs.flavor()),
        ("CreateCloudlet", stubs.cloudlet()),
        ("CreateApp", stubs.app()),
    ):
        await edge(verb, message)
    crm = practice(stubs.cloudlet().key, [caller.address], faults)
    async with yard(temporal.client, database, vault, queues):
        managing = asyncio.create_task(crm.run())
        async with limit(SECONDS):
            while True:
                infos = await edge("ShowCloudletInfo", CloudletInfo())
                if infos and infos[0].state == CLOUDLET_STATE_READY:
                    break
                await asyncio.sleep(0.02)
        yield crm
        managing.cancel()
        await asyncio.wait([managing])


async def told(edge: Edge, method: str, message: object) -> list[str]:
    return [result.message for result in await edge(method, message, timeout=SECONDS)]


async def test_an_app_is_placed_and_taken_away(edge: Edge, crm: Crm) -> None:
    said = await told(edge, "CreateAppInst", stubs.appinst(cluster="autocluster1"))
    assert said.count("Created successfully") == 2
    [instance] = await edge("ShowAppInst", AppInst())
    assert (instance.state, list(instance.runtime_info.container_ids)) == (READY, ["shop-0"])
    [cluster] = await edge("ShowClusterInst", ClusterInst())
    assert (cluster.state, cluster.auto) == (READY, True)
    said = await told(edge, "DeleteAppInst", instance)
    assert said[-1] == "Deleted ClusterInst successfully"
    assert "Deleted AppInst successfully" in said
    assert await edge("ShowClusterInst", ClusterInst()) == []
    [refs] = await edge("ShowCloudletRefs", CloudletRefs())
    assert (refs.used_ram, dict(refs.root_lb_ports)) == (0, {})


async def test_what_cannot_be_made_leaves_nothing(edge: Edge, crm: Crm, faults: Faults) -> None:
    faults.add(fault("crm-create-fails,times=1"))
    refusal = await edge.refused("CreateClusterInst", stubs.clusterinst(), timeout=SECONDS)
    assert refusal.message == "Encountered failures: Create failed: simulated fault"
    assert await edge("ShowClusterInst", ClusterInst()) == []
    assert "Created successfully" in await told(edge, "CreateClusterInst", stubs.clusterinst())


async def test_a_lost_connection_delays(edge: Edge, crm: Crm, faults: Faults) -> None:
    faults.add(fault("crm-drops,times=1"))
    said = await told(edge, "CreateClusterInst", stubs.clusterinst())
    assert said[-1] == "Created successfully"


async def test_what_a_dead_manager_had_made_is_removed_by_the_next(edge: Edge, crm: Crm) -> None:
    """It died before it heard that nobody wants it any more."""
    await told(edge, "CreateAppInst", stubs.appinst(cluster="autocluster1"))
    platform = crm.platform
    stands = set(await platform.carries())
    assert len(stands) == 2
    lost = stubs.clusterinst("lost")
    await platform.create_cluster(lost)
    await crm.restart()
    async with limit(SECONDS):
        while True:
            if platform.name(lost) not in await platform.carries():
                break
            await asyncio.sleep(0.01)
    assert set(await platform.carries()) == stands
    assert "Created successfully" in await told(edge, "CreateClusterInst", lost)


async def test_what_becomes_of_what_is_ready_is_told_within_fifteen_seconds(
    edge: Edge, crm: Crm
) -> None:
    """Its state has no word for that. It stands in the errors, and goes once all is well."""
    await told(edge, "CreateAppInst", stubs.appinst(cluster="autocluster1"))
    [cluster] = await edge("ShowClusterInst", ClusterInst())
    [instance] = await edge("ShowAppInst", AppInst())
    platform = crm.platform
    assert isinstance(platform, Simulated)

    async def told_of() -> list[list[str]]:
        kinds = (ClusterInst, AppInst, CloudletInfo)
        found = [await edge(f"Show{kind.DESCRIPTOR.name}", kind()) for kind in kinds]
        assert found[0][0].state == found[1][0].state == READY
        return [list(each.errors) for [each] in found]

    gone, lost = "is gone: Windlass has no cluster c", "does not run: its cluster is gone"
    for ails in (True, False):
        platform.ailing.clear()
        if ails:
            platform.ailing[platform.name(cluster)] = Standing((gone,))
            platform.ailing[platform.name(instance)] = Standing((lost,))
        wanted: list[list[str]] = [[], [], []]
        if ails:
            both = [f"autocluster1 {gone}", f"shop in autocluster1 {lost}"]
            wanted = [[f"Health: {gone}"], [f"Health: {lost}"], both]
        async with limit(15):
            while True:
                if await told_of() == wanted:
                    break
                await asyncio.sleep(0.1)
    said = await told(edge, "DeleteAppInst", stubs.appinst(cluster="autocluster1"))
    assert said[-1] == "Deleted ClusterInst successfully"
