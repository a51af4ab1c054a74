"""Instances over the wire, from the call to the last message of its stream, with workers and a
resource manager at work. All share one site, served twice: as it is, and with legacy codes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from uuid import uuid4

import grpc
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.testing import WorkflowEnvironment

from api import build
from api.__main__ import Api
from api.edge import showing
from domain.record import Noun
from domain.tracking import Phase
from protos.gen.edge import app_pb2, common_pb2
from protos.gen.edge.flavor_pb2 import FlavorKey
from settings import Edge as Terms
from settings import Settings, Temporal
from store import schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from store.tail import Tail
from tests.api.caller import Caller
from tests.api.edge.stubs import (
    Edge,
    app,
    appinst,
    at,
    cloudlet,
    clusterinst,
    flavor,
    info,
)
from tests.store.desk import until
from tests.workflows.edge import Site, described, does, obeys
from tests.workflows.yard import yard

MADE = ["Creating", "Ready", "Created successfully"]
UNKNOWN = grpc.StatusCode.UNKNOWN


class Served(NamedTuple):
    proper: Edge
    legacy: Edge
    site: Site


@pytest.fixture(scope="module")
async def served(
    temporal: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    home = tmp_path_factory.mktemp("instances")
    url = f"sqlite+aiosqlite:///{home}/windlass.db"
    await schema.upgrade(url)
    database, prefix = Database(url), f"{uuid4().hex[:8]}-"
    seal = Seal(AESGCM.generate_key(bit_length=256))
    tail = Tail(database)
    site = described(database, tail, None, temporal.client, prefix)
    apis = [
        Api(
            Settings(
                database=url,
                key_file=home / "seal.key",
                grpc_address="127.0.0.1:0",
                http_address="127.0.0.1:0",
                temporal=Temporal(queue_prefix=prefix),
                edge=Terms(legacy_codes=legacy),
            ),
            temporal.client,
            build.Build(),
        )
        for legacy in (False, True)
    ]
    callers = [Caller((await api.start())[0]) for api in apis]
    edges = [Edge(caller.channel) for caller in callers]
    async with yard(temporal.client, database, Secrets(database, seal), prefix):
        managing = asyncio.create_task(site.manage())
        for method, request in (
            ("CreateFlavor", flavor("tiny", ram=1024, vcpus=1, disk=1)),
            ("CreateFlavor", flavor()),
            ("CreateFlavor", flavor("medium", ram=4096, vcpus=4, disk=4)),
            ("CreateCloudlet", cloudlet(location=at(47.5, 19, altitude=9))),
            ("InjectCloudletInfo", info()),
            ("CreateApp", app(access_ports="http:443,tcp:10002,udp:10002")),
            ("CreateApp", app("other", access_ports="tcp:80,http:443")),
            ("CreateApp", app("agent", access_ports="", del_opt=app_pb2.AUTO_DELETE)),
        ):
            await edges[0](method, request)
        yield Served(edges[0], edges[1], site)
        managing.cancel()
        await asyncio.wait([managing])
        for caller, api in zip(callers, apis, strict=True):
            await caller.close()
            await api.stop()
    await tail.close()
    await database.close()


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


async def ended(edge: Edge, method: str, request: Any) -> tuple[list[str], grpc.aio.AioRpcError]:
    """What a stream tells, and how it fails."""
    heard: list[str] = []
    try:
        async for result in edge.stream(method, request):
            heard += [result.message]
    except grpc.aio.AioRpcError as error:
        return heard, error
    raise AssertionError(f"it did not fail: {heard}")


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


@pytest.mark.parametrize("legacy", [False, True], ids=["proper", "legacy"])
async def test_a_failure_ends_the_stream_with_its_text(
    legacy: bool, edge: Edge, served: Served
) -> None:
    asked = served.legacy if legacy else edge
    await edge("CreateClusterInst", clusterinst())
    served.site.fault = does("fail", Phase.CREATE_REQUESTED, Noun.APP_INST)
    heard, error = await ended(asked, "CreateAppInst", appinst())
    assert heard == [
        *("Creating", "CreateError"),
        *("Deleting AppInst due to failure", "Deleted AppInst successfully"),
    ]
    assert error.details() == "Encountered failures: it broke, twice"
    assert error.code() is (UNKNOWN if legacy else grpc.StatusCode.ABORTED)


async def test_whoever_hangs_up_stops_nothing(edge: Edge, served: Served) -> None:
    served.site.fault = does("stall", Phase.CREATE_REQUESTED)
    stream = edge.stream("CreateClusterInst", clusterinst())
    assert (await anext(stream)).message == "Creating"
    await stream.aclose()  # type: ignore[attr-defined]
    await served.site.say_of("blue", Noun.CLUSTER_INST, Phase.READY)

    async def rests() -> bool:
        ended = await served.site.operations.page(size=1)
        return ended[0].ended is not None

    async with asyncio.timeout(20):
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


async def test_what_is_left_of_a_failure_is_told_before_the_refusal(
    edge: Edge,
) -> None:
    """The same over the wire as from the stores: a sentence, and then no."""
    gone = appinst("other", "none", key={"developer": ""})
    heard, error = await ended(edge, "DeleteAppInst", gone)
    assert (len(heard), error.details()) == (1, "Key not found")
