"""Nodes closed to pods and emptied, against simulated API servers."""

import asyncio
from typing import Any

import httpx2
import pytest

from clients.kubernetes import KubernetesApi
from domain.errors import Unavailable
from sim.faults import Fault, How
from tests.clients.test_kubernetes import api, node, site, vault
from tests.sim.apiserver import NETWORK, Built

__all__ = ["api", "site", "vault"]

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
async def caller(site: Built) -> Any:
    """A foreign client, and a worker that is Ready."""
    async with site.caller() as http:
        path = "/apis/apps/v1/namespaces/kube-system/daemonsets"
        await posted(http, path, NETWORK)
        yield http


async def posted(http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> None:
    (await http.post(path, json=body)).raise_for_status()


async def run(http: httpx2.AsyncClient, name: str, *, on: str = "metal-1", **labels: str) -> None:
    """A pod of nobody's on a node."""
    spec = {"nodeName": on, "containers": [{"name": "it", "image": "it:1"}]}
    metadata = {"name": name, "labels": labels}
    await posted(
        http, PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )


async def guard(http: httpx2.AsyncClient, name: str, **labels: str) -> None:
    """A budget that lets no pod go."""
    spec = {"minAvailable": "100%", "selector": {"matchLabels": labels}}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    await posted(http, BUDGETS, {**kind, "metadata": {"name": name}, "spec": spec})


def closed(site: Built, name: str = "metal-1") -> bool:
    found = site.clusters.node(site.uid, name)
    assert found is not None
    return found.unschedulable


async def test_a_node_is_closed_and_opened_again(api: KubernetesApi, site: Built) -> None:
    for _ in range(2):
        await api.cordon(node(site))
        assert closed(site)
    for _ in range(2):
        await api.uncordon(node(site))
        assert not closed(site)


async def test_a_node_that_somebody_closed_is_not_opened(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    patch = {"spec": {"unschedulable": True}}
    merge = {"Content-Type": "application/merge-patch+json"}
    answer = await caller.patch("/api/v1/nodes/metal-1", json=patch, headers=merge)
    assert answer.status_code == 200
    await api.cordon(node(site))
    await api.uncordon(node(site))
    assert closed(site)


async def test_a_node_that_is_not_there_needs_nothing(api: KubernetesApi, site: Built) -> None:
    await api.cordon(node(site, "metal-9"))
    await api.uncordon(node(site, "metal-9"))
    assert await api.evict(node(site, "metal-9")) == ()


async def test_pods_are_asked_to_leave_and_those_that_belong_to_the_node_stay(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    await run(caller, "web-1")
    await run(caller, "elsewhere", on="cp-1")
    await api.cordon(node(site))
    while await api.evict(node(site)):
        continue
    left = (await caller.get("/api/v1/pods?fieldSelector=spec.nodeName=metal-1")).json()["items"]
    owners = [pod["metadata"]["ownerReferences"][0]["kind"] for pod in left]
    assert owners == ["DaemonSet"] * len(left)
    assert left
    assert (await caller.get(f"{PODS}/elsewhere")).status_code == 200
    assert "default/elsewhere (asked to leave)" in await api.evict(node(site, "cp-1"))
    assert (await caller.get(f"{PODS}/elsewhere")).status_code == 404


async def test_a_drain_ends_though_pods_that_tolerate_everything_come_back(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    """M7: whoever replaces such a pod puts the next one on the node that was closed, for ever."""
    everywhere = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "agent"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": "metal-1"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "it", "image": "it:1"}],
                },
            },
        },
    }
    await posted(caller, "/apis/apps/v1/namespaces/default/deployments", everywhere)
    await caller.get(PODS)
    await api.cordon(node(site))
    for _ in range(100):
        if not await api.evict(node(site)):
            break
        await asyncio.sleep(0.1)  # times in the API are whole seconds
    else:
        raise AssertionError("the pods come back for ever")
    left = (await caller.get(PODS)).json()["items"]
    assert [pod["spec"]["nodeName"] for pod in left] == ["metal-1"]


async def test_a_pod_that_may_not_leave_is_named_with_what_holds_it(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    await run(caller, "web-1", app="web")
    await guard(caller, "web-budget", app="web")
    await api.cordon(node(site))
    held = "default/web-1 (held by PodDisruptionBudget web-budget)"
    assert held in await api.evict(node(site))
    assert await api.evict(node(site)) == (held,)
    assert (await caller.get(f"{PODS}/web-1")).status_code == 200
    await guard(caller, "another", app="web")
    [name] = await api.evict(node(site))
    assert "more than one PodDisruptionBudget" in name
    for budget in ("web-budget", "another"):
        await caller.delete(f"{BUDGETS}/{budget}")
    assert await api.evict(node(site)) == ("default/web-1 (asked to leave)",)
    assert await api.evict(node(site)) == ()


async def test_an_api_that_refuses_evictions_for_another_reason_is_not_taken_for_a_budget(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    await run(caller, "web-1")
    site.faults.add(Fault(where="kubernetes hello POST *", how=How.REFUSE, status=503, times=1))
    with pytest.raises(Unavailable, match="answered 503 to evict pod default/web-1"):
        await api.evict(node(site))


async def test_evictions_are_called_as_the_server_calls_them(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    site.cluster.version = "1.20.2"
    await run(caller, "web-1")
    refused = await caller.post(f"{PODS}/web-1/eviction", json={"apiVersion": "policy/v1"})
    assert refused.status_code == 400
    await api.cordon(node(site))
    assert "default/web-1 (asked to leave)" in await api.evict(node(site))
    assert (await caller.get(f"{PODS}/web-1")).status_code == 404


async def test_a_server_that_takes_no_evictions_is_named(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(caller, "web-1")
    monkeypatch.setattr("sim.kubernetes.kinds.resource_list", lambda *_: {"resources": []})
    with pytest.raises(Unavailable, match="API of hello does not say how pods are evicted"):
        await api.evict(node(site))
