"""Instances over the wire, from the call to the last message of its stream, with workers and a
resource manager at work. All share one site, served twice: as it is, and with legacy codes."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from api.edge import showing
from domain.record import Noun
from domain.tracking import Phase
from protos.gen.edge import app_pb2, common_pb2
from protos.gen.edge.flavor_pb2 import FlavorKey
from tests.api.edge.stubs import (
    Edge,
    appinst,
    at,
    cloudlet,
    clusterinst,
)
from tests.api.edge.works import Served
from tests.store.desk import until
from tests.support.load import limit
from tests.workflows.edge import does, obeys

MADE = ["Creating", "Ready", "Created successfully"]


@pytest.fixture
async def edge(served: Served) -> AsyncIterator[Edge]:
    """The site with nothing on it, and nothing left on it afterwards."""
    served.site.fault = obeys
    yield served.proper
    served.site.fault = obeys
    await served.site.clear()
    [refs] = await served.proper("ShowCloudletRefs", cloudlet_refs())
    assert (refs.used_ram, refs.used_dynamic_ips, dict(refs.root_lb_ports)) == (0, 0, {})


def cloudlet_refs() -> Any:
    from protos.gen.edge.refs_pb2 import CloudletRefs

    return CloudletRefs()


async def told(edge: Edge, method: str, request: Any, **how: Any) -> list[str]:
    return [result.message for result in await edge(method, request, **how)]


async def test_instances_come_and_go_and_are_shown_as_they_stand(edge: Edge) -> None:
    sized = FlavorKey(name="medium")
    assert await told(edge, "CreateClusterInst", clusterinst(flavor=sized, num_nodes=2)) == MADE
    [cluster] = await edge("ShowClusterInst", type(clusterinst())(key=clusterinst().key))
    assert (cluster.state, cluster.liveness, cluster.node_flavor) == (
        *(common_pb2.READY, common_pb2.LIVENESS_STATIC),
        "flavor1",
    )
    assert await told(edge, "CreateAppInst", appinst()) == MADE
    assert await told(edge, "CreateAppInst", appinst("other")) == MADE
    [shop] = await edge("ShowAppInst", appinst())
    assert shop.uri == "west.tele.mobiledgex.net"
    assert (shop.cloudlet_loc.latitude, shop.cloudlet_loc.altitude) == (47.5, 9)
    assert [
        (port.internal_port, port.public_port, port.path_prefix, port.fqdn_prefix)
        for port in shop.mapped_ports
    ] == [
        (443, 443, "acme/shop10/p443", ""),
        (10002, 10002, "", "shop-tcp."),
        (10002, 10002, "", "shop-udp."),
    ]
    [refs] = await edge("ShowCloudletRefs", cloudlet_refs())
    assert (refs.used_ram, refs.used_vcores, refs.used_disk) == (3 * 4096, 12, 12)
    assert dict(refs.root_lb_ports) == {80: 1, 10002: 3}
    grown = clusterinst(fields=["14"], num_nodes=3)
    assert await told(edge, "UpdateClusterInst", grown) == [
        *("Updating", "Ready", "Updated successfully")
    ]
    for name in ("shop", "other"):
        assert await told(edge, "DeleteAppInst", appinst(name)) == [
            *("Deleting", "NotPresent", "Deleted AppInst successfully")
        ]
    assert await told(edge, "DeleteClusterInst", clusterinst()) == [
        *("Deleting", "NotPresent", "Deleted ClusterInst successfully")
    ]
    assert await edge("ShowAppInst", type(shop)()) == []


CHANGED = ["Updating", "Ready", "Updated successfully"]


async def test_a_change_may_name_key_fields_alone_or_ask_for_no_nodes(edge: Edge) -> None:
    assert await told(edge, "CreateClusterInst", clusterinst(num_nodes=2)) == MADE
    for fields in (["2"], ["2.3", "6"], ["2.1.1"]):
        same = clusterinst(fields=fields, num_nodes=9)
        assert await told(edge, "UpdateClusterInst", same) == CHANGED
        [shown] = await edge("ShowClusterInst", clusterinst(num_nodes=0))
        assert shown.num_nodes == 2
    none = clusterinst(fields=["14"], num_nodes=0)
    assert await told(edge, "UpdateClusterInst", none) == CHANGED
    [shown] = await edge("ShowClusterInst", clusterinst(num_nodes=0))
    assert (shown.num_nodes, shown.num_masters, shown.state) == (0, 1, common_pb2.READY)
    [refs] = await edge("ShowCloudletRefs", cloudlet_refs())
    assert refs.used_vcores == 2


async def test_a_cluster_that_is_made_is_the_caller_s_only_by_name(edge: Edge) -> None:
    """Its name is as Kubernetes likes it, and what callers may not say is not heeded."""
    wanted = appinst(cluster="autoclusterX_1", key={"developer": ""}, state=7, errors=["x"])
    inherited = "Setting ClusterInst developer to match App developer"
    assert await told(edge, "CreateAppInst", wanted) == [inherited, *MADE, *MADE]
    [cluster] = await edge("ShowClusterInst", type(clusterinst())())
    assert (cluster.key.cluster_key.name, cluster.key.developer) == ("autoclusterx-1", "acme")
    assert (cluster.auto, cluster.liveness) == (True, common_pb2.LIVENESS_DYNAMIC)
    [instance] = await edge("ShowAppInst", type(wanted)())
    assert (instance.state, list(instance.errors)) == (common_pb2.READY, [])
    assert instance.created_at.seconds
    [apps] = await edge("ShowClusterRefs", cluster_refs())
    assert [each.name for each in apps.apps] == ["shop"]
    gone = await told(edge, "DeleteAppInst", appinst(cluster="autoclusterX_1"))
    assert gone[2:4] == ["Deleted AppInst successfully", "Deleting auto-cluster inst"]
    assert await edge("ShowClusterInst", type(clusterinst())()) == []


def cluster_refs() -> Any:
    from protos.gen.edge.refs_pb2 import ClusterRefs

    return ClusterRefs()


async def test_whoever_hangs_up_stops_nothing(edge: Edge, served: Served) -> None:
    served.site.fault = does("stall", Phase.CREATE_REQUESTED)
    stream = edge.stream("CreateClusterInst", clusterinst())
    assert (await anext(stream)).message == "Creating"
    await stream.aclose()  # type: ignore[attr-defined]
    await served.site.say_of("blue", Noun.CLUSTER_INST, Phase.READY)

    async def rests() -> bool:
        ended = await served.site.operations.page(size=1)
        return ended[0].ended is not None

    async with limit(20):
        await until(rests)
    assert (await served.site.phases()) == {"blue": Phase.READY}


async def test_a_request_that_is_repeated_is_told_the_same(edge: Edge) -> None:
    again = {"metadata": (("x-request-id", str(uuid4())),)}
    for _ in range(2):
        assert await told(edge, "CreateClusterInst", clusterinst(), **again) == MADE


async def test_what_stands_on_a_cloudlet_moves_with_it(edge: Edge) -> None:
    await edge("CreateAppInst", appinst(cluster="autocluster"))
    before = await edge("ShowApp", app_pb2.App())
    await edge("UpdateCloudlet", cloudlet(location=at(10, 20, altitude=7), fields=["5.1", "5.2"]))
    [instance] = await edge("ShowAppInst", type(appinst())())
    place = instance.cloudlet_loc
    assert (place.latitude, place.longitude, place.altitude) == (10, 20, 9)
    assert await edge("ShowApp", app_pb2.App()) == before
    await edge("UpdateCloudlet", cloudlet(location=at(47.5, 19), fields=["5"]))


@pytest.mark.parametrize("page", [1, 2, 3, 200])
async def test_what_is_shown_is_like_the_example_and_sorted(
    edge: Edge, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "PAGE", page)
    for name in ("zeta", "Alpha", "beta"):
        ignored = common_pb2.IGNORE_CRM
        await edge("CreateClusterInst", clusterinst(name, crm_override=ignored))
    example = type(clusterinst())()
    shown = await edge("ShowClusterInst", example)
    assert [each.key.cluster_key.name for each in shown] == ["Alpha", "beta", "zeta"]
    example.key.cluster_key.name = "beta"
    assert len(await edge("ShowClusterInst", example)) == 1
    example.num_nodes = 7
    assert await edge("ShowClusterInst", example) == []
