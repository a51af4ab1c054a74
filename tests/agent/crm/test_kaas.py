"""The platform that makes real clusters: over gRPC against a scripted Windlass, and over HTTPS
against a simulated Kubernetes API."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import yaml

from agent.crm import names
from agent.crm.crm import cloudlet_key
from agent.crm.kaas import Kaas
from agent.crm.manifests import Manifests, Note
from agent.crm.platform import LONGEST, AppOrder, Output, Standing
from agent.crm.simulated import RESOURCES
from domain import app, manifest
from domain.errors import Failed
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey
from protos.gen.edge.flavor_pb2 import Flavor, FlavorKey
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterServicer, add_ClusterServicer_to_server
from protos.gen.ops.clusters_pb2 import ClusterOwner, ListClusterOwnersResponse
from protos.gen.ops.clusters_pb2_grpc import ClustersServicer, add_ClustersServicer_to_server
from sim.faults import Fault, How
from sim.pace import WallClock
from tests.sim.apiserver import NETWORK, Built, built
from tests.support.load import limit

KEY = ClusterInstKey(
    cluster_key=ClusterKey(name="Edge.One"), cloudlet_key=cloudlet_key("tele/west"), developer="d"
)
CLUSTER = ClusterInst(key=KEY, deployment="kubernetes", num_masters=1, num_nodes=2)
NAME = names.cluster(KEY)
ELSEWHERE = ClusterInstKey(cluster_key=KEY.cluster_key, cloudlet_key=cloudlet_key("tele/east"))


class Owners(ClustersServicer):
    """Says whose its clusters are. The one that the test is about is the ClusterInst's unless the
    test says otherwise."""

    def __init__(self, windlass: "Windlass") -> None:
        self._windlass = windlass
        self.owner = names.owner(CLUSTER)

    async def ListOwners(self, request: Any, _context: Any) -> Any:  # noqa: N802
        elsewhere = ClusterInst(key=ELSEWHERE)
        there = {"hello": "", names.cluster(ELSEWHERE): names.owner(elsewhere)}
        if self._windlass.cluster:
            there[NAME] = self.owner
        found = [
            ClusterOwner(name=name, owner=owner)
            for name, owner in there.items()
            if request.name in ("", name)
        ]
        return ListClusterOwnersResponse(clusters=found)


class Windlass(ClusterServicer):
    """Says what the test wants of one cluster, and does what it is asked at the second look."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.cluster: pb.ClusterDetailItem | None = None
        self.then: list[pb.ClusterDetailItem | None] = []
        self.away = 1
        self.nodes: list[str] | None = None

    async def GetCluster(self, _request: Any, context: Any) -> Any:  # noqa: N802 (the contract's)
        if self.away:
            self.away -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        if self.then:
            self.cluster = self.then.pop(0)
        if self.cluster is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such cluster")
        return pb.GetClusterReply(ok=True, cluster=self.cluster)

    async def GetClusterList(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return pb.GetClusterListReply(ok=True)

    async def CreateCluster(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked.append(request)
        if self.cluster is not None:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "it is there")
        return pb.CreateClusterReply(ok=True)

    async def GetClusterNodesStatus(self, _request: Any, context: Any) -> Any:  # noqa: N802
        if self.nodes is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not told")
        machine = pb.GetClusterNodesStatusReply.MachineStatus
        machines = [
            machine(maasHostname=f"metal-{number}", k8sNodeStatus=status)
            for number, status in enumerate(self.nodes or ())
        ]
        return pb.GetClusterNodesStatusReply(count=len(machines), machines=machines)

    async def ScaleNodePool(self, request: Any, _context: Any) -> Any:  # noqa: N802
        self.asked.append(request)
        return pb.ScaleNodePoolReply(ok=True)

    async def DeleteCluster(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked.append(request)
        if self.cluster is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such cluster")
        return pb.DeleteClusterReply(ok=True)


@pytest.fixture
async def windlass() -> AsyncIterator[tuple[Windlass, Kaas]]:
    windlass, server = Windlass(), grpc.aio.server()  # type: ignore[abstract]
    add_ClusterServicer_to_server(windlass, server)
    add_ClustersServicer_to_server(Owners(windlass), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    kaas = Kaas(KEY.cloudlet_key, f"127.0.0.1:{port}", RESOURCES, look_seconds=0.01)
    yield windlass, kaas
    await kaas.close()
    await server.stop(None)


def detail(status: Any, kubeconfig: str = "", message: str = "") -> pb.ClusterDetailItem:
    return pb.ClusterDetailItem(
        name=NAME, status=status, kubeconfig=kubeconfig, status_message=message
    )


async def test_a_cluster_is_there_once_it_runs(windlass: tuple[Windlass, Kaas]) -> None:
    other, kaas = windlass
    assert NAME.startswith("edgeone-")
    other.then = [detail(pb.PROVISIONING), detail(pb.RUNNING), detail(pb.RUNNING, "a kubeconfig")]
    await kaas.create_cluster(CLUSTER)
    [order] = other.asked
    assert (order.name, order.control_plane_nodes.count) == (NAME, 1)
    assert [(pool.name, pool.count) for pool in order.worker_node_pools] == [("worker", 2)]
    await kaas.create_cluster(CLUSTER)  # it is there
    more = ClusterInst(key=KEY, num_nodes=3)
    other.then = [detail(pb.RECONCILING, "c"), detail(pb.RUNNING, "c")]
    await kaas.update_cluster(more)
    assert [(size.name, size.count) for size in other.asked[-1].node_pools] == [("worker", 3)]
    other.then = [detail(pb.STOPPING), None]
    await kaas.delete_cluster(CLUSTER)
    await kaas.delete_cluster(CLUSTER)


@pytest.mark.parametrize(
    ("node_flavor", "flavor", "asked"),
    [("big", "small", "c5.large"), ("other", "small", "t3"), ("other", "none", "")],
)
async def test_a_flavor_is_asked_for_as_its_instance_type(
    windlass: tuple[Windlass, Kaas], node_flavor: str, flavor: str, asked: str
) -> None:
    other, kaas = windlass
    kaas._instance_types = {"big": "c5.large", "small": "t3"}
    other.then = [detail(pb.RUNNING, "c")]
    wanted = ClusterInst(
        key=KEY,
        deployment="kubernetes",
        num_nodes=1,
        node_flavor=node_flavor,
        flavor=FlavorKey(name=flavor),
    )
    await kaas.create_cluster(wanted)
    [order] = other.asked
    kinds = [order.control_plane_nodes.instanceType, order.worker_node_pools[0].instanceType]
    assert kinds == [asked, asked]


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (None, f"cluster {NAME} is gone: Windlass has none of that name"),
        (
            pb.ClusterDetailItem(status=pb.STOPPING, kubeconfig="c"),
            f"cluster {NAME} is being deleted",
        ),
        (
            pb.ClusterDetailItem(status=pb.PROVISIONING),
            f"cluster {NAME} has no kubeconfig yet: it is PROVISIONING",
        ),
    ],
)
async def test_a_command_in_a_cluster_that_is_not_there_says_so(
    windlass: tuple[Windlass, Kaas], cluster: pb.ClusterDetailItem | None, why: str
) -> None:
    other, kaas = windlass
    other.cluster = cluster
    for work in (kaas.run(web_shop(), "", "ls"), kaas.create_app(web_shop())):
        with pytest.raises(Failed) as caught:
            await work
        assert caught.value.message == why
        assert caught.value.do


@pytest.mark.parametrize("status", [pb.ERROR, pb.DEGRADED])
async def test_a_cluster_that_will_not_run_has_failed(
    windlass: tuple[Windlass, Kaas], status: Any
) -> None:
    other, kaas = windlass
    other.then = [detail(status, message="no machine is free")]
    with pytest.raises(Failed, match=f"{NAME} is {pb.ClusterStatus.Name(status)}: no machine"):
        await kaas.create_cluster(CLUSTER)


async def test_what_it_cannot_do_has_failed(windlass: tuple[Windlass, Kaas]) -> None:
    _, kaas = windlass
    for deployment in ("docker", ""):
        with pytest.raises(Failed, match="deployments"):
            await kaas.create_cluster(ClusterInst(key=KEY, deployment=deployment))
    with pytest.raises(Failed, match="deployments"):
        await kaas.run(order("helm", ""), "", "ls")
    with pytest.raises(Failed, match="deployments"):
        await kaas.create_app(order("helm", ""))


def order(deployment: str, manifest_: str) -> AppOrder:
    wanted = App(key=AppKey(name="Web Shop"), deployment=deployment, deployment_manifest=manifest_)
    key = AppInstKey(app_key=wanted.key, cluster_inst_key=KEY)
    return AppOrder(instance=AppInst(key=key), app=wanted, flavor=Flavor(), cluster=CLUSTER)


def web_shop() -> AppOrder:
    described = app.App(
        developer="d", name="Web Shop", version="1", access_ports="tcp:80", image_path="shop:1"
    )
    return order("kubernetes", yaml.safe_dump_all(manifest.documents(described)))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Built]:
    async with built(tmp_path) as site:
        await site.initialise()
        await site.worker("metal-1")
        yield site


async def test_an_app_is_what_its_manifest_says(
    windlass: tuple[Windlass, Kaas], site: Built
) -> None:
    other, kaas = windlass
    shop = web_shop()
    other.cluster = detail(pb.RUNNING)
    with pytest.raises(Failed, match="no kubeconfig"):
        await kaas.create_app(shop)
    other.cluster = detail(pb.RUNNING, site.kubeconfig())
    async with site.caller() as api:
        await api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=NETWORK)
        for _ in range(2):
            pods = await kaas.create_app(shop)
            assert len(pods) == 1
            assert pods[0].startswith("webshop-deployment-")
        services = (await api.get("/api/v1/namespaces/default/services")).json()["items"]
        assert "webshop-tcp" in {each["metadata"]["name"] for each in services}
        for _ in range(2):
            await kaas.delete_app(shop)
        found = (await api.get("/apis/apps/v1/namespaces/default/deployments")).json()["items"]
        assert found == []
        noted = (await api.get("/api/v1/namespaces/kube-system/configmaps")).json()["items"]
        assert names.app(shop.instance.key) not in {each["metadata"]["name"] for each in noted}
    for nonsense in ("a: [", "kind: Nothing\napiVersion: v1"):
        with pytest.raises(Failed, match="manifest"):
            await kaas.create_app(order("kubernetes", nonsense))
    other.cluster = None
    await kaas.delete_app(shop)  # and with the cluster all that was in it


async def test_a_command_is_run_in_a_pod(windlass: tuple[Windlass, Kaas], site: Built) -> None:
    other, kaas = windlass
    other.cluster = detail(pb.RUNNING, site.kubeconfig())
    shop = web_shop()
    with pytest.raises(Failed, match="no pod of this app runs") as caught:
        await kaas.run(shop, "", "hostname")
    assert caught.value.do
    async with site.caller() as api:
        await api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=NETWORK)
    [pod] = await kaas.create_app(shop)
    for container in ("", pod, f"{pod}/webshop"):
        assert await kaas.run(shop, container, "hostname") == Output(0, f"{pod}\n")
    script = "sh -c 'echo here; echo there >&2; exit 3'"
    assert await kaas.run(shop, "", script) == Output(3, "here\n", "there\n")
    long = await kaas.run(shop, "", "seq 1000000")
    assert long.stdout.startswith("1\n2\n")
    assert LONGEST < len(long.stdout) <= (LONGEST + 1) * 4, "no more is kept than shows that"
    for container, command, why in (
        ("other", "ls", "no container other"),
        (f"{pod}/other", "ls", f"no container {pod}/other"),
        ("", "nonsense", "executable file not found"),
    ):
        with pytest.raises(Failed, match=why) as caught:
            await kaas.run(shop, container, command)
        assert caught.value.do


@pytest.mark.parametrize("how", [How.REFUSE, How.DROP])
async def test_a_command_that_was_not_run_is_not_repeated(
    windlass: tuple[Windlass, Kaas], site: Built, how: How
) -> None:
    other, kaas = windlass
    other.cluster = detail(pb.RUNNING, site.kubeconfig())
    shop = web_shop()
    async with site.caller() as api:
        await api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=NETWORK)
    await kaas.create_app(shop)
    site.faults.add(Fault(where="kubernetes * GET */exec", how=how))
    with pytest.raises(Failed, match="ran no command") as caught:
        await kaas.run(shop, "", "true")
    assert caught.value.do
    assert await kaas.run(shop, "", "true") == Output(0, "")


class Sleeper(WallClock):
    """Tells when somebody has begun to wait."""

    def __init__(self) -> None:
        self.asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        await super().sleep(seconds)


async def test_a_command_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    clock, note = Sleeper(), Note("shop", "AppInst of the test")
    async with built(tmp_path, clock=clock) as site:
        await site.initialise()
        await site.worker("metal-1")
        async with site.caller() as api:
            await api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=NETWORK)
        manifests = Manifests(look_seconds=0.01, run_seconds=0.5)
        await manifests.apply(site.kubeconfig(), note, web_shop().app.deployment_manifest)
        with pytest.raises(Failed, match=r"not done within 0\.5 s") as caught:
            await manifests.run(site.kubeconfig(), note, "", ["sleep", "60"])
        assert caught.value.do
        clock.asleep.clear()
        patient = Manifests(look_seconds=0.01)
        running = asyncio.create_task(patient.run(site.kubeconfig(), note, "", ["sleep", "60"]))
        async with limit(20):
            await clock.asleep.wait()
            await site.servers.stop(site.addresses["cp-1"])
            with pytest.raises(Failed, match="ran no command"):
                await running


async def test_what_it_carries_is_what_was_made_for_its_cloudlet(
    windlass: tuple[Windlass, Kaas], site: Built
) -> None:
    """What others made is not among it, and of a cluster that does not answer there is its name."""
    other, kaas = windlass
    assert await kaas.carries() == []
    other.cluster = detail(pb.PROVISIONING)
    assert await kaas.carries() == [NAME]
    away = yaml.safe_load(site.kubeconfig())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    other.cluster = detail(pb.RUNNING, yaml.safe_dump(away))
    with pytest.raises(Failed, match="did not list what was applied"):
        await kaas.remove(f"{NAME}/shop")
    assert await kaas.carries() == [NAME]
    other.cluster = detail(pb.RUNNING, site.kubeconfig())
    first, second = (order("kubernetes", config(name)) for name in ("first", "second"))
    await kaas.create_app(first)
    async with site.caller() as api:
        assert await configs(api) == {"first"}
        await kaas.create_app(second)  # the app was described anew meanwhile
        assert await configs(api) == {"second"}
        shop = kaas.name(second.instance)
        assert await kaas.carries() == [NAME, shop]
        await kaas.remove(shop)
        assert await configs(api) == set()
    await kaas.remove(shop)
    assert await kaas.carries() == [NAME]
    other.then = [detail(pb.STOPPING), None]
    await kaas.remove(NAME)
    await kaas.remove(shop)


def config(name: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"},
        }
    )


async def configs(api: Any) -> set[str]:
    found = (await api.get("/api/v1/namespaces/default/configmaps")).json()["items"]
    return {each["metadata"]["name"] for each in found} - {"kube-root-ca.crt"}


@pytest.mark.parametrize(
    ("cluster", "nodes", "standing"),
    [
        (None, None, Standing((f"is gone: Windlass has no cluster {NAME}",), (), 0)),
        (detail(pb.RUNNING), None, Standing()),
        (detail(pb.RUNNING), ["Ready"] * 3, Standing(nodes=3)),
        (
            detail(pb.DEGRADED, message="a node is lost"),
            ["Ready", "NotReady"],
            Standing(
                (
                    "is DEGRADED: a node is lost",
                    "has 2 nodes, and not 3",
                    "has 1 nodes that are not Ready: metal-1",
                ),
                nodes=2,
            ),
        ),
    ],
)
async def test_a_cluster_is_inspected_as_it_is(
    windlass: tuple[Windlass, Kaas],
    cluster: pb.ClusterDetailItem | None,
    nodes: list[str] | None,
    standing: Standing,
) -> None:
    other, kaas = windlass
    with pytest.raises(Failed, match="does not tell of its clusters: later"):
        await kaas.inspect([CLUSTER], [])
    other.cluster, other.nodes = cluster, nodes
    found = await kaas.inspect([CLUSTER], [web_shop()])
    assert found[kaas.name(CLUSTER)] == standing
    if cluster is None:
        lost = found[kaas.name(web_shop().instance)]
        assert lost == Standing((f"does not run: its cluster {NAME} is gone",), ())


async def test_an_app_is_inspected_in_its_cluster(
    windlass: tuple[Windlass, Kaas], site: Built
) -> None:
    other, kaas = windlass
    other.away = 0
    other.cluster = detail(pb.RUNNING, site.kubeconfig())
    shop = web_shop()
    name = kaas.name(shop.instance)
    async with site.caller() as api:
        await api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=NETWORK)
        pods = await kaas.create_app(shop)
        found = await kaas.inspect([CLUSTER], [shop])
        assert found[name] == Standing((), tuple(pods))
        await api.delete("/apis/apps/v1/namespaces/default/deployments/webshop-deployment")
    found = await kaas.inspect([CLUSTER], [shop])
    assert found[name].faults == ("does not run: deployment webshop-deployment is gone",)
    away = yaml.safe_load(site.kubeconfig())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    other.cluster = detail(pb.RUNNING, yaml.safe_dump(away))
    found = await kaas.inspect([CLUSTER], [shop])
    [silent] = found[name].faults
    assert silent.startswith("may not run: Kubernetes does not answer")
