"""Apps at the edge on nodes of our own, end to end: from the contract's door over notify to a
resource manager, from there through the scheduler to an agent, and a command back the same way."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.crm.crm import Crm
from agent.crm.nodes import Nodes
from agent.crm.simulated import RESOURCES
from domain.placement import Amounts
from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.store.desk import until
from tests.support.load import limit
from tests.workflows.harbour import PATIENCE_SECONDS, Harbour
from tests.workflows.test_instances import Opening, opened
from tests.workflows.test_nodes import nodes, typed

__all__ = ["opened"]

LARGE = Amounts(cpu=8000, memory=8000, disk=100)
SHOP = "acme/shop/1.0/tele/west/blue"


@asynccontextmanager
async def managed(place: Harbour) -> AsyncIterator[Edge]:
    """A cloudlet on nodes, with an app that could run there."""
    edge = Edge(place.channel)
    key = stubs.cloudlet().key
    shop = stubs.app(deployment="docker", image_path="builtin:ticker", access_ports="")
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateCloudlet", stubs.cloudlet())
    await edge("CreateApp", shop)
    crm = Crm(key, Nodes(key, place.address, "", RESOURCES), [place.address])
    managing = asyncio.create_task(crm.run())

    async def is_ready() -> bool:
        return bool(await edge("ShowCloudletInfo", CloudletInfo()))

    async with limit(PATIENCE_SECONDS):
        await until(is_ready)
    yield edge
    managing.cancel()
    await asyncio.wait([managing])


async def hops(place: Harbour, name: str) -> list[dict[str, str]]:
    """How an app is carried, as the command says from there."""
    ran = await typed(place, "trace", name, "-o", "json")
    found: list[dict[str, str]] = json.loads(ran.out)["items"] if ran.code == 0 else []
    return found


async def test_a_command_reaches_the_container_of_an_app_on_a_node(
    opened: Opening, tmp_path: Path
) -> None:
    cluster = stubs.clusterinst(num_masters=0, num_nodes=0, deployment="docker")
    async with (
        opened(restart="always") as place,
        nodes(place, tmp_path, LARGE, a="") as (node,),
        managed(place) as edge,
    ):
        for method, request in (
            ("CreateClusterInst", cluster),
            ("CreateAppInst", stubs.appinst()),
        ):
            told = await edge(method, request)
            assert told[-1].message == "Created successfully"
        assert await node.runs() == 1
        [shown] = await edge("ShowAppInst", stubs.appinst())
        [container] = shown.runtime_info.container_ids

        ran = await typed(place, "exec", SHOP, "--", "echo", "a  b")
        assert (ran.code, ran.out, ran.err) == (0, "a  b\n", "")
        ran = await typed(place, "exec", SHOP, "--container", container, "--", "sh", "-c", "exit 5")
        assert (ran.code, ran.out) == (5, "")
        ran = await typed(place, "exec", SHOP, "--", "nonsense")
        assert (ran.code, ran.err) == (127, "nonsense: not simulated\n")
        ran = await typed(place, "exec", SHOP, "--container", "other", "--", "ls")
        assert "there is no container other" in ran.err
        assert container in ran.err, "it says which there is"

        kinds = ["AppInst", "ClusterInst", "instance", "pod", "node"]

        async def is_linked() -> bool:
            """Its pod is seen once its node has reported."""
            ways = [await hops(place, name) for name in (SHOP, container, "a")]
            return all([each["kind"] for each in way] == kinds for way in ways)

        await until(is_linked)
        found = {each["kind"]: each for each in await hops(place, SHOP)}
        assert (found["AppInst"]["name"], found["AppInst"]["state"]) == (SHOP, "READY")
        assert (found["instance"]["name"], found["instance"]["on"]) == (container, "a")
        assert (found["pod"]["on"], found["node"]["name"]) == ("a", "a")
        assert await hops(place, found["pod"]["name"]) == list(found.values())
        ran = await typed(place, "trace", "nothing")
        assert (ran.code, "nothing is called nothing" in ran.err) == (4, True)

        told = await edge("DeleteAppInst", stubs.appinst())
        assert told[-1].message == "Deleted AppInst successfully"
        assert await node.runs() == 0
        ran = await typed(place, "exec", SHOP, "--", "ls")
        assert f"there is no {SHOP}" in ran.err
