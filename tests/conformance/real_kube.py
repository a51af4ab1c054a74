"""Our Kubernetes client against a real control plane with hollow nodes.

The API is as old as the source package, 1.20: what it calls by other names than today's clusters is
the more of a proof that we ask for names."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from clients.kubernetes import INSTANCE_TYPE_LABEL, ROLE_LABEL, KubernetesApi
from domain.machine import Label, Role, Slot
from domain.naming import POOL_LABEL
from domain.ports import Node, kubeconfig
from domain.releases import Release
from tests.conformance.kube_cluster import Cluster, cluster
from tests.conformance.kube_source import built, programs
from tests.conformance.processes import eventually
from tests.conformance.stage import Stage
from tests.vaults import MemoryVault

VERSION = "1.20.2"
NODES = ("hollow-1", "hollow-2", "hollow-3")
_SECONDS = 60
_NOT_READY_SECONDS = 90
_UID = secrets.token_hex(16)

STAGE = Stage(
    name="real-kube",
    proves="our client closes, empties, opens, labels and deletes nodes of a real control plane",
    prepare=built,
    tests=("tests/conformance/real_kube.py",),
    seconds=600,
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    there = programs()
    assert all(path.exists() for path in there.values()), "make conformance T=real-kube builds them"
    async with cluster(there, tmp_path_factory.mktemp("kube")) as made:
        await asyncio.gather(*(made.add_node(name) for name in NODES))
        yield made


@pytest.fixture
async def caller(real: Cluster) -> AsyncIterator[httpx2.AsyncClient]:
    async with real.caller() as http:
        yield http


@pytest.fixture
async def api(real: Cluster) -> AsyncIterator[KubernetesApi]:
    vault = MemoryVault()
    vault.secrets[kubeconfig(_UID)] = real.kubeconfig.encode()
    api = KubernetesApi(vault)
    yield api
    await api.close()


def node(name: str, role: Role = Role.WORKER) -> Node:
    slot = Slot(
        cluster_uid=_UID,
        cluster="real",
        name=name,
        role=role,
        pool="metal",
        instance_type="large",
        labels=(Label(name="colour", value="blue"),),
        release=Release(version=VERSION, series="bookworm"),
        public_key="ssh-ed25519 none",
    )
    return Node(slot=slot, endpoint="127.0.0.1")


async def get(http: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    body: dict[str, Any] = (await http.get(path)).raise_for_status().json()
    return body


async def post(http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> None:
    reply = await http.post(path, json=body)
    assert reply.is_success, reply.text


async def pods(http: httpx2.AsyncClient, app: str) -> list[dict[str, Any]]:
    listed = await get(http, f"/api/v1/namespaces/default/pods?labelSelector=app%3D{app}")
    items: list[dict[str, Any]] = listed["items"]
    return items


async def deploy(http: httpx2.AsyncClient, app: str, replicas: int) -> str:
    """A deployment whose pods run, and a node that has at least one of them."""
    labels = {"matchLabels": {"app": app}}
    spec = {"containers": [{"name": "it", "image": "it:1"}]}
    template = {"metadata": {"labels": {"app": app}}, "spec": spec}
    body = {"replicas": replicas, "selector": labels, "template": template}
    wanted = {"metadata": {"name": app}, "spec": body}
    await post(http, "/apis/apps/v1/namespaces/default/deployments", wanted)

    async def run() -> bool:
        found = await pods(http, app)
        return [pod["status"]["phase"] for pod in found] == ["Running"] * replicas

    await eventually(f"{replicas} pods of {app} run", run, seconds=_SECONDS)
    name: str = (await pods(http, app))[0]["spec"]["nodeName"]
    return name


async def guard(http: httpx2.AsyncClient, app: str, least: int, name: str = "") -> str:
    """A PodDisruptionBudget, once its controller has counted. Where it lies."""
    path, name = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets", name or app
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    await post(http, path, {"metadata": {"name": name}, "spec": spec})

    async def counted() -> bool:
        status = (await get(http, f"{path}/{name}")).get("status", {})
        return bool(status.get("expectedPods"))

    await eventually(f"the budget {name} is counted", counted, seconds=_SECONDS)
    return f"{path}/{name}"


async def emptied(api: KubernetesApi, name: str) -> None:
    async def empty() -> bool:
        return await api.evict(node(name)) == ()

    await eventually(f"{name} is empty", empty, seconds=_SECONDS)


async def test_the_api_is_ready_and_its_nodes_tell_their_version(
    api: KubernetesApi, real: Cluster
) -> None:
    assert await api.ready(node("hollow-1"))
    assert [await api.node_ready(node(name)) for name in NODES] == [VERSION] * 3
    assert await api.node_ready(node("nobody")) is None


async def test_the_pod_network_can_be_applied_twice(
    api: KubernetesApi, caller: httpx2.AsyncClient
) -> None:
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/windlass-network"
    await api.install_network(node("hollow-1"))
    first = (await get(caller, path))["metadata"]["generation"]
    await api.install_network(node("hollow-1"))
    assert (await get(caller, path))["metadata"]["generation"] == first


async def test_a_node_is_closed_and_opened_again(
    api: KubernetesApi, caller: httpx2.AsyncClient
) -> None:
    for _ in range(2):
        await api.cordon(node("hollow-1"))
        assert (await get(caller, "/api/v1/nodes/hollow-1"))["spec"]["unschedulable"] is True
    for _ in range(2):
        await api.uncordon(node("hollow-1"))
        assert "unschedulable" not in (await get(caller, "/api/v1/nodes/hollow-1"))["spec"]
    await api.cordon(node("nobody"))
    await api.uncordon(node("nobody"))


async def test_a_node_gets_its_labels_and_a_control_plane_its_taint(
    api: KubernetesApi, caller: httpx2.AsyncClient
) -> None:
    await api.label(node("hollow-2"))
    shown = await get(caller, "/api/v1/nodes/hollow-2")
    wanted = {POOL_LABEL: "metal", INSTANCE_TYPE_LABEL: "large", "colour": "blue"}
    assert wanted.items() <= shown["metadata"]["labels"].items()
    version = shown["metadata"]["labels"]
    await api.label(node("hollow-2"))
    assert (await get(caller, "/api/v1/nodes/hollow-2"))["metadata"]["labels"] == version

    await api.label(node("hollow-3", Role.CONTROL_PLANE))
    taint = {"key": f"{ROLE_LABEL}control-plane", "effect": "NoSchedule"}
    assert taint in (await get(caller, "/api/v1/nodes/hollow-3"))["spec"]["taints"]
    workless = node("hollow-3", Role.CONTROL_PLANE).model_copy(update={"workless": True})
    await api.label(workless)
    assert "taints" not in (await get(caller, "/api/v1/nodes/hollow-3"))["spec"]


async def test_a_node_is_emptied_and_its_pods_run_elsewhere(
    api: KubernetesApi, caller: httpx2.AsyncClient
) -> None:
    name = await deploy(caller, "free", 3)
    await api.cordon(node(name))
    assert any("default/free-" in each for each in await api.evict(node(name)))
    await emptied(api, name)

    async def elsewhere() -> bool:
        found = await pods(caller, "free")
        places = [pod["spec"].get("nodeName", "") for pod in found]
        return len(found) == 3 and "" not in places and name not in places

    await eventually("its pods run elsewhere", elsewhere, seconds=_SECONDS)
    await api.uncordon(node(name))


async def test_a_pod_disruption_budget_holds_pods_until_it_can_spare_them(
    api: KubernetesApi, caller: httpx2.AsyncClient
) -> None:
    name = await deploy(caller, "held", 2)
    budget = await guard(caller, "held", 2)
    await api.cordon(node(name))
    for _ in range(2):
        said = await api.evict(node(name))
        assert any(each.endswith("(held by PodDisruptionBudget held)") for each in said), said
    assert name in [pod["spec"]["nodeName"] for pod in await pods(caller, "held")]
    headers = {"Content-Type": "application/merge-patch+json"}
    patch = json.dumps({"spec": {"minAvailable": 1}})
    (await caller.patch(budget, content=patch, headers=headers)).raise_for_status()
    await emptied(api, name)
    await api.uncordon(node(name))


async def test_two_budgets_over_one_pod_are_told(
    api: KubernetesApi, caller: httpx2.AsyncClient
) -> None:
    name = await deploy(caller, "twice", 1)
    for budget in ("one", "another"):
        await guard(caller, "twice", 0, budget)
    said = await api.evict(node(name))
    assert any("more than one PodDisruptionBudget" in each for each in said), said
    for budget in ("one", "another"):
        await caller.delete(
            f"/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets/{budget}"
        )


async def test_pods_of_a_node_that_died_are_not_waited_for(
    api: KubernetesApi, real: Cluster, caller: httpx2.AsyncClient
) -> None:
    name = await deploy(caller, "lost", 6)
    await real.kill_node(name)

    async def noticed() -> bool:
        return await api.node_ready(node(name)) is None

    await eventually(f"{name} is not Ready", noticed, seconds=_NOT_READY_SECONDS)
    await api.cordon(node(name))
    await emptied(api, name)
    for _ in range(2):
        await api.delete_node(node(name))
    assert (await caller.get(f"/api/v1/nodes/{name}")).status_code == 404
    assert await api.evict(node(name)) == ()
