"""The simulated Kubernetes API, asked over HTTPS by a client that knows nothing of it."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sim.clusters import authority
from sim.faults import Fault, How
from sim.pace import HandClock, Pace
from tests.sim.apiserver import NETWORK, VERSION, Built, built, trusting
from tests.sim.region import eventually

MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DAEMONSETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"


@dataclass
class Asking:
    """A client and the cluster it asks."""

    site: Built
    http: httpx2.AsyncClient

    async def __call__(
        self, method: str, path: str, body: Any = None, expect: int = 200, **more: Any
    ) -> Any:
        """The JSON of an answer that must have this status."""
        content = None if body is None else json.dumps(body)
        reply = await self.http.request(method, path, content=content, **more)
        assert reply.status_code == expect, reply.text
        return reply.json()

    async def names(self, path: str, **query: str) -> list[str]:
        found = await self("GET", path, params=query)
        return [item["metadata"]["name"] for item in found["items"]]


@pytest.fixture
async def ask(site: Built) -> AsyncIterator[Asking]:
    async with site.caller() as http:
        yield Asking(site, http)


@pytest.fixture
async def working(ask: Asking) -> Asking:
    """The same with a pod network, so that nodes are Ready and pods run."""
    await ask("POST", DAEMONSETS, NETWORK, expect=201)
    return ask


def settings(name: str = "colours", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }


def deployment(name: str, replicas: int) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "web:1"}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def budget(name: str, **amounts: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, **amounts}}


class Watching:
    """A watch and what it has shown so far, as (type, name) pairs."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []

    async def listen(self, reply: httpx2.Response) -> None:
        async for line in reply.aiter_lines():
            event = json.loads(line)
            self.bodies.append(event["object"])
            name = event["object"].get("metadata", {}).get("name", "")
            self.seen.append((event["type"], name))

    def has(self, *events: tuple[str, str]) -> bool:
        return list(events) == self.seen


@asynccontextmanager
async def watching(ask: Asking, path: str, **query: str) -> AsyncIterator[Watching]:
    watch = Watching()
    async with ask.http.stream("GET", path, params={"watch": "1", **query}) as reply:
        assert reply.status_code == 200
        listening = asyncio.create_task(watch.listen(reply))
        yield watch
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz", "/version"])
async def test_everybody_may_ask_whether_the_server_lives(site: Built, path: str) -> None:
    async with site.stranger() as stranger:
        assert (await stranger.get(path)).status_code == 200


async def test_nobody_may_ask_for_more_without_a_certificate(site: Built) -> None:
    async with site.stranger() as stranger:
        reply = await stranger.get(NODES)
        assert reply.status_code == 403
        assert reply.json()["reason"] == "Forbidden"
        assert 'User "system:anonymous" cannot list resource "nodes"' in reply.json()["message"]
        token = {"Authorization": "Bearer nobody-knows"}
        reply = await stranger.get(NODES, headers=token)
        assert (reply.status_code, reply.json()["reason"]) == (401, "Unauthorized")


async def test_only_administrators_may_do_anything(site: Built) -> None:
    someone = authority.client(site.cluster.authority, "someone", "developers")
    async with site.caller(someone) as http:
        reply = await http.get(MAPS)
    assert reply.status_code == 403
    assert reply.json()["message"] == (
        'configmaps is forbidden: User "someone" cannot list resource "configmaps" in API group '
        '"" in the namespace "default"'
    )


async def test_certificates_of_another_authority_are_not_accepted(site: Built) -> None:
    stranger = authority.client(authority.authority("other"), "kubernetes-admin", "admins")
    async with site.caller(stranger) as http:
        with pytest.raises(httpx2.TransportError):
            await http.get(NODES)


async def test_servers_are_good_for_the_endpoints_name_and_their_address(site: Built) -> None:
    for name in (site.cluster.endpoint, site.addresses["cp-1"]):
        _, writer = await asyncio.open_connection(
            *(site.addresses["cp-1"], site.port),
            ssl=trusting(site, None),
            server_hostname=name,
        )
        writer.close()


async def test_an_upgrade_shows_wherever_a_version_is_told(ask: Asking, site: Built) -> None:
    await site.clusters.replace_control_plane(site.uid, site.addresses["cp-1"], "1.33.0")
    assert (await ask("GET", "/version"))["gitVersion"] == "v1.33.0"
    system = "/api/v1/namespaces/kube-system"
    pods = (await ask("GET", f"{system}/pods"))["items"]
    images = {each["metadata"]["name"]: each["spec"]["containers"][0]["image"] for each in pods}
    assert images["kube-apiserver-cp-1"] == "kube-apiserver:v1.33.0"

    async def configured() -> str:
        found = await ask("GET", f"{system}/configmaps/kubeadm-config")
        return str(found["data"]["ClusterConfiguration"])

    assert f"kubernetesVersion: v{VERSION}" in await configured()
    site.clusters.configure(site.uid, "1.33.0")
    assert "kubernetesVersion: v1.33.0" in await configured()
    found = await ask("GET", "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "kube-proxy:v1.33.0"

    site.clusters.kubelet_started(site.uid, "cp-1", "1.33.0")
    shown = await ask("GET", "/api/v1/nodes/cp-1")
    assert shown["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.0"


async def test_the_version_is_the_clusters(ask: Asking) -> None:
    found = await ask("GET", "/version")
    assert (found["gitVersion"], found["minor"]) == (f"v{VERSION}", "32")


async def test_both_forms_of_discovery_tell_the_same(ask: Asking) -> None:
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    told, listed = set(), set()
    for root in ("/api", "/apis"):
        found = await ask("GET", root, headers=accept)
        for group in found["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                for resource in version["resources"]:
                    told.add((name, version["version"], resource["resource"]))
                    for part in resource["subresources"]:
                        whole = f"{resource['resource']}/{part['subresource']}"
                        told.add((name, version["version"], whole))
    groups = (await ask("GET", "/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{group['versions'][0]['groupVersion']}" for group in groups)]
    for root in roots:
        found = await ask("GET", root)
        group, _, version = f"/{found['groupVersion']}".rpartition("/")
        listed |= {(group.strip("/"), version, known["name"]) for known in found["resources"]}
    assert told == listed
    assert ("", "v1", "pods/eviction") in told


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/nothing", 404, "NotFound"),
        ("GET", "/api/v1/gadgets", 404, "NotFound"),
        ("GET", "/apis/example.com/v1/things", 404, "NotFound"),
        ("GET", f"{NODES}/metal-1/gadget", 404, "NotFound"),
        ("GET", f"{NODES}/metal-9", 404, "NotFound"),
        ("GET", f"{MAPS}/nothing", 404, "NotFound"),
        ("DELETE", f"{MAPS}/nothing", 404, "NotFound"),
        ("PUT", NODES, 405, "MethodNotAllowed"),
        ("DELETE", NODES, 405, "MethodNotAllowed"),
        ("GET", f"{PODS}/x/eviction", 405, "MethodNotAllowed"),
        ("GET", f"{MAPS}?labelSelector=a=b=c!", 400, "BadRequest"),
        ("GET", f"{MAPS}?fieldSelector=metadata.name", 400, "BadRequest"),
        ("GET", f"{MAPS}?continue=*", 400, "BadRequest"),
        ("GET", f"{MAPS}?limit=few", 400, "BadRequest"),
        ("GET", f"{MAPS}?watch=1&resourceVersion=soon", 400, "BadRequest"),
        ("GET", f"{MAPS}?watch=1&resourceVersion=1", 410, "Expired"),
        ("DELETE", "/api/v1/namespaces/kube-system", 403, "Forbidden"),
    ],
)
async def test_what_cannot_be_is_a_status(
    ask: Asking, method: str, path: str, status: int, reason: str
) -> None:
    found = await ask(method, path, expect=status)
    assert (found["kind"], found["status"]) == ("Status", "Failure")
    assert (found["code"], found["reason"]) == (status, reason)


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        (NODES, {"metadata": {"name": "x"}}, 405, "MethodNotAllowed"),
        (MAPS, {"metadata": {}}, 422, "Invalid"),
        (MAPS, {"metadata": {"name": "Shouting"}}, 422, "Invalid"),
        (MAPS, {"metadata": {"name": "x", "labels": {"a b": "c"}}}, 422, "Invalid"),
        (MAPS, {"metadata": {"name": "x", "namespace": "other"}}, 400, "BadRequest"),
        (MAPS, {"kind": "Secret", "apiVersion": "v1", "metadata": {}}, 400, "BadRequest"),
        (MAPS, [], 400, "BadRequest"),
        (MAPS, {"metadata": "none"}, 400, "BadRequest"),
        (MAPS, {"metadata": {"name": "x", "labels": "none"}}, 422, "Invalid"),
        (PODS, {"metadata": {"name": "x"}}, 422, "Invalid"),
        (PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{}]}}, 422, "Invalid"),
        (DEPLOYMENTS, {"metadata": {"name": "x"}, "spec": {"template": []}}, 422, "Invalid"),
        (DEPLOYMENTS, {"metadata": {"name": "x"}, "spec": {"replicas": -1}}, 422, "Invalid"),
        (BUDGETS, budget("x", minAvailable="most"), 422, "Invalid"),
        ("/api/v1/namespaces/gone/configmaps", settings(), 400, "BadRequest"),
        ("/api/v1/namespaces/gone/secrets", {"metadata": {"name": "x"}}, 404, "NotFound"),
    ],
)
async def test_what_may_not_be_is_not_created(
    ask: Asking, path: str, body: Any, status: int, reason: str
) -> None:
    found = await ask("POST", path, body, expect=status)
    assert (found["status"], found["reason"]) == ("Failure", reason)


async def test_bodies_that_nobody_can_read_are_refused(ask: Asking) -> None:
    reply = await ask.http.post(MAPS, content="{", headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    reply = await ask.http.post(MAPS, content="x", headers={"Content-Type": "text/plain"})
    assert reply.status_code == 415
    protobuf = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    for content in (b"x", b"k8s\x00", b"k8s\x00\x0a\x7f", b"k8s\x00\x0b"):
        reply = await ask.http.post(MAPS, content=content, headers=protobuf)
        assert reply.status_code == 400
    reply = await ask.http.patch(f"{NODES}/metal-1", json={})
    assert reply.status_code == 415


async def test_an_object_is_created_once(ask: Asking) -> None:
    first = await ask("POST", MAPS, settings(sky="blue"), expect=201)
    assert first["metadata"]["uid"]
    found = await ask("POST", MAPS, settings(sky="grey"), expect=409)
    assert found["reason"] == "AlreadyExists"
    assert found["message"] == 'configmaps "colours" already exists'
    assert await ask("GET", f"{MAPS}/colours") == first


async def test_a_name_may_be_left_to_the_server(ask: Asking) -> None:
    body = {"metadata": {"generateName": "colours-"}}
    names = {(await ask("POST", MAPS, body, expect=201))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3


async def test_a_dry_run_changes_nothing(ask: Asking) -> None:
    everything = {"dryRun": "All"}
    await ask("POST", MAPS, settings(), expect=201, params=everything)
    assert await ask.names(MAPS) == []
    made = await ask("POST", MAPS, settings(sky="blue"), expect=201)
    patch = {"data": {"sky": "grey"}}
    shown = await ask("PATCH", f"{MAPS}/colours", patch, headers=MERGE, params=everything)
    assert shown["data"] == {"sky": "grey"}
    await ask("DELETE", f"{MAPS}/colours", params=everything)
    assert await ask("GET", f"{MAPS}/colours") == made


async def test_what_was_changed_meanwhile_is_not_replaced(ask: Asking) -> None:
    old = await ask("POST", MAPS, settings(sky="blue"), expect=201)
    new = await ask("PUT", f"{MAPS}/colours", old | {"data": {"sky": "grey"}})
    assert new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
    found = await ask("PUT", f"{MAPS}/colours", old, expect=409)
    assert found["reason"] == "Conflict"
    assert "the object has been modified" in found["message"]
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    await ask("PATCH", f"{MAPS}/colours", version, headers=MERGE, expect=409)
    other = {"metadata": {"uid": "another"}}
    await ask("PATCH", f"{MAPS}/colours", other, headers=MERGE, expect=409)


async def test_changing_nothing_makes_no_version(ask: Asking) -> None:
    made = await ask("POST", MAPS, settings(sky="blue"), expect=201)
    patch = {"data": {"sky": "blue"}}
    assert await ask("PATCH", f"{MAPS}/colours", patch, headers=MERGE) == made


async def test_a_delete_may_insist_on_what_it_deletes(ask: Asking) -> None:
    made = await ask("POST", MAPS, settings(), expect=201)
    wrong = {"preconditions": {"uid": "another"}}
    assert (await ask("DELETE", f"{MAPS}/colours", wrong, expect=409))["reason"] == "Conflict"
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    gone = await ask("DELETE", f"{MAPS}/colours", right)
    assert gone["status"] == "Success"
    assert gone["details"]["uid"] == made["metadata"]["uid"]
    await ask("GET", f"{MAPS}/colours", expect=404)


async def test_what_an_object_owned_goes_with_it(ask: Asking) -> None:
    owner = await ask("POST", MAPS, settings("owner"), expect=201)
    reference = {"kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for name in ("one", "two"):
        owned = settings(name)
        owned["metadata"]["ownerReferences"] = [reference]
        await ask("POST", MAPS, owned, expect=201)
    await ask("POST", MAPS, settings("other"), expect=201)
    await ask("DELETE", f"{MAPS}/owner")
    assert await ask.names(MAPS) == ["other"]


async def test_a_namespace_takes_all_that_is_in_it_along(ask: Asking) -> None:
    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}}, expect=201)
    labelled = {"labelSelector": "kubernetes.io/metadata.name=lab"}
    assert await ask.names("/api/v1/namespaces", **labelled) == ["lab"]
    inside = {"metadata": {"name": "colours"}}
    await ask("POST", "/api/v1/namespaces/lab/configmaps", inside, expect=201)
    await ask("POST", MAPS, settings(), expect=201)
    await ask("DELETE", "/api/v1/namespaces/lab")
    found = await ask(
        "GET", "/api/v1/configmaps", params={"fieldSelector": "metadata.name=colours"}
    )
    assert [item["metadata"]["namespace"] for item in found["items"]] == ["default"]
    await ask("GET", "/api/v1/namespaces/lab", expect=404)


async def test_a_collection_is_deleted_by_its_labels(ask: Asking) -> None:
    for name in ("red", "blue"):
        body = settings(name)
        body["metadata"]["labels"] = {"colour": name}
        await ask("POST", MAPS, body, expect=201)
    await ask("DELETE", MAPS, params={"labelSelector": "colour=red"})
    assert await ask.names(MAPS) == ["blue"]


async def test_secrets_are_kept_as_data(ask: Asking) -> None:
    body = {"metadata": {"name": "key"}, "stringData": {"word": "open"}}
    made = await ask("POST", "/api/v1/namespaces/default/secrets", body, expect=201)
    assert (made["type"], made["data"]) == ("Opaque", {"word": "b3Blbg=="})
    assert "stringData" not in made


async def test_events_are_heard_and_forgotten(ask: Asking) -> None:
    body = {"metadata": {"generateName": "x."}, "reason": "Tested"}
    made = await ask("POST", "/api/v1/namespaces/default/events", body, expect=201)
    assert made["reason"] == "Tested"
    assert await ask.names("/api/v1/events") == []


async def test_lists_come_in_pages(ask: Asking) -> None:
    for number in range(5):
        await ask("POST", MAPS, settings(f"map-{number}"), expect=201)
    pages, query = [], {"limit": "2"}
    while True:
        page = await ask("GET", MAPS, params=query)
        pages.append([item["metadata"]["name"] for item in page["items"]])
        if "continue" not in page["metadata"]:
            break
        assert page["metadata"]["remainingItemCount"] > 0
        query["continue"] = page["metadata"]["continue"]
    assert pages == [["map-0", "map-1"], ["map-2", "map-3"], ["map-4"]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"labelSelector": "kubernetes.io/hostname=metal-1"}, ["metal-1"]),
        ({"labelSelector": "kubernetes.io/hostname==metal-1"}, ["metal-1"]),
        ({"labelSelector": "kubernetes.io/hostname!=metal-1"}, ["cp-1", "metal-2"]),
        ({"labelSelector": "kubernetes.io/hostname in (metal-1, cp-1)"}, ["cp-1", "metal-1"]),
        ({"labelSelector": "kubernetes.io/hostname notin (metal-1,cp-1)"}, ["metal-2"]),
        ({"labelSelector": "node-role.kubernetes.io/control-plane"}, ["cp-1"]),
        (
            {"labelSelector": "!node-role.kubernetes.io/control-plane,kubernetes.io/os=linux"},
            ["metal-1", "metal-2"],
        ),
        ({"fieldSelector": "metadata.name=metal-2"}, ["metal-2"]),
        ({"fieldSelector": "metadata.name!=metal-2,spec.unschedulable!=true"}, ["cp-1", "metal-1"]),
    ],
)
async def test_selectors_choose(ask: Asking, query: dict[str, str], names: list[str]) -> None:
    assert await ask.names(NODES, **query) == names


async def test_a_watch_shows_what_there_is_and_what_happens(ask: Asking) -> None:
    await ask("POST", MAPS, settings("one"), expect=201)
    async with watching(ask, MAPS) as watch:
        await eventually(lambda: watch.has(("ADDED", "one")))
        await ask("POST", MAPS, settings("two"), expect=201)
        await eventually(lambda: watch.seen[1:] == [("ADDED", "two")])
        await ask("PATCH", f"{MAPS}/one", {"data": {"sky": "blue"}}, headers=MERGE)
        await eventually(lambda: watch.seen[2:] == [("MODIFIED", "one")])
        await ask("DELETE", f"{MAPS}/two")
        await eventually(lambda: watch.seen[3:] == [("DELETED", "two")])


async def test_a_watch_goes_on_from_where_a_list_ended(ask: Asking) -> None:
    await ask("POST", MAPS, settings("old"), expect=201)
    await ask("POST", MAPS, settings("doomed"), expect=201)
    listed = await ask("GET", MAPS)
    await ask("POST", MAPS, settings("new"), expect=201)
    await ask("DELETE", f"{MAPS}/doomed")
    version = listed["metadata"]["resourceVersion"]
    async with watching(ask, MAPS, resourceVersion=version) as watch:
        await eventually(lambda: watch.has(("ADDED", "new"), ("DELETED", "doomed")))


async def test_a_watch_says_where_the_present_ends(ask: Asking) -> None:
    await ask("POST", MAPS, settings("one"), expect=201)
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    async with watching(ask, MAPS, **query) as watch:
        await eventually(lambda: watch.has(("ADDED", "one"), ("BOOKMARK", "")))
    bookmark = watch.bodies[1]["metadata"]
    assert bookmark["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["resourceVersion"]) >= int(watch.bodies[0]["metadata"]["resourceVersion"])


async def test_what_no_longer_fits_a_watch_is_deleted_for_it(ask: Asking) -> None:
    async with watching(ask, NODES, labelSelector="rack=a") as watch:
        rack: dict[str, Any] = {"metadata": {"labels": {"rack": "a"}}}
        await ask("PATCH", f"{NODES}/metal-1", rack, headers=MERGE)
        await eventually(lambda: watch.seen == [("MODIFIED", "metal-1")])
        rack = {"metadata": {"labels": {"rack": None}}}
        await ask("PATCH", f"{NODES}/metal-1", rack, headers=MERGE)
        await eventually(lambda: watch.seen[1:] == [("DELETED", "metal-1")])


async def test_a_watch_ends_when_its_time_is_up_or_quorum_is_lost(ask: Asking) -> None:
    async with ask.http.stream("GET", MAPS, params={"watch": "1", "timeoutSeconds": "0"}) as reply:
        assert [line async for line in reply.aiter_lines()] == []
    async with ask.http.stream("GET", MAPS, params={"watch": "1"}) as reply:
        ask.site.clusters.set_member_health(ask.site.uid, "cp-1", healthy=False)
        assert [line async for line in reply.aiter_lines()] == []


async def test_nodes_become_ready_by_time_alone(tmp_path: Path) -> None:
    clock = HandClock()
    async with built(tmp_path, clock=clock, pace=Pace(node_ready=30)) as site:
        await site.initialise()
        async with site.caller() as http:
            ask = Asking(site, http)
            await ask("POST", DAEMONSETS, NETWORK, expect=201)

            async def status() -> str:
                table = await ask("GET", f"{NODES}/cp-1", headers=TABLE)
                return str(table["rows"][0]["cells"][1])

            async with watching(ask, NODES) as watch:
                await eventually(lambda: watch.has(("ADDED", "cp-1")))
                assert await status() == "NotReady"
                await clock.turn(31)
                await eventually(lambda: watch.seen[1:] == [("MODIFIED", "cp-1")])
                assert await status() == "Ready"


async def test_a_node_whose_host_went_down_is_not_ready_since_then(tmp_path: Path) -> None:
    clock = HandClock()
    async with built(tmp_path, clock=clock) as site:
        await site.initialise()
        await site.worker("metal-1")
        async with site.caller() as http:
            ask = Asking(site, http)
            await ask("POST", DAEMONSETS, NETWORK, expect=201)

            async def ready() -> tuple[str, float]:
                node = await ask("GET", f"{NODES}/metal-1")
                [told] = (it for it in node["status"]["conditions"] if it["type"] == "Ready")
                since = datetime.fromisoformat(told["lastTransitionTime"]).timestamp()
                return told["status"], since

            status, joined = await ready()
            assert status == "True"
            await clock.turn(100)
            await site.clusters.host_stopped(site.addresses["metal-1"])
            await clock.turn(100)
            assert await ready() == ("Unknown", joined + 100)
            await site.clusters.host_started(site.addresses["metal-1"], site.uid, "metal-1")
            assert await ready() == ("True", joined + 200)


async def test_only_a_daemonset_that_writes_cni_configuration_is_a_network(ask: Asking) -> None:
    async def ready() -> list[str]:
        table = await ask("GET", NODES, headers=TABLE)
        return [row["cells"][0] for row in table["rows"] if row["cells"][1] == "Ready"]

    other = deployment("agent", 1) | {"metadata": {"name": "agent"}}
    await ask("POST", DAEMONSETS, other, expect=201)
    assert await ready() == []
    await ask("PATCH", f"{DAEMONSETS}/network?fieldManager=x", NETWORK, headers=APPLY, expect=201)
    assert await ready() == ["cp-1", "metal-1", "metal-2"]


async def test_a_node_shows_what_its_kubelet_would_report(working: Asking) -> None:
    node = await working("GET", f"{NODES}/metal-1")
    conditions = {known["type"]: known["status"] for known in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == f"v{VERSION}"
    address = {"type": "InternalIP", "address": working.site.addresses["metal-1"]}
    assert address in node["status"]["addresses"]
    await working.site.clusters.host_stopped(working.site.addresses["metal-1"])
    node = await working("GET", f"{NODES}/metal-1")
    conditions = {known["type"]: known["status"] for known in node["status"]["conditions"]}
    assert conditions["Ready"] == "Unknown"
    lease = await working(
        "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/metal-2"
    )
    assert lease["spec"]["holderIdentity"] == "metal-2"


@pytest.mark.parametrize(
    ("patch", "headers"),
    [
        ({"spec": {"unschedulable": True}}, MERGE),
        ({"spec": {"unschedulable": True}}, STRATEGIC),
        ([{"op": "add", "path": "/spec/unschedulable", "value": True}], JSON),
    ],
)
async def test_a_node_is_cordoned_by_any_kind_of_patch(
    ask: Asking, patch: Any, headers: dict[str, str]
) -> None:
    await ask("PATCH", f"{NODES}/metal-1", patch, headers=headers)
    table = await ask("GET", f"{NODES}/metal-1", headers=TABLE)
    assert table["rows"][0]["cells"][1] == "NotReady,SchedulingDisabled"
    kept = ask.site.clusters.node(ask.site.uid, "metal-1")
    assert kept is not None
    assert kept.unschedulable
    assert kept.taints == []  # the one that is shown follows from the cordon


async def test_a_patch_that_fails_halfway_changes_nothing(ask: Asking) -> None:
    made = await ask("POST", MAPS, settings(sky="blue"), expect=201)
    operations = [
        {"op": "add", "path": "/data/sea", "value": "green"},
        {"op": "test", "path": "/data/sky", "value": "grey"},
    ]
    await ask("PATCH", f"{MAPS}/colours", operations, headers=JSON, expect=422)
    assert await ask("GET", f"{MAPS}/colours") == made


async def test_what_is_left_out_of_an_apply_goes_away(ask: Asking) -> None:
    path = f"{MAPS}/colours?fieldManager=painter"
    made = await ask("PATCH", path, settings(sky="blue", sea="green"), headers=APPLY, expect=201)
    assert made["data"] == {"sky": "blue", "sea": "green"}
    again = await ask("PATCH", path, settings(sky="blue", sea="green"), headers=APPLY)
    assert again == made
    less = await ask("PATCH", path, settings(sky="grey"), headers=APPLY)
    assert less["data"] == {"sky": "grey"}


async def test_fields_of_another_applier_are_taken_by_force_only(ask: Asking) -> None:
    await ask(
        "PATCH",
        f"{MAPS}/colours?fieldManager=painter",
        settings(sky="blue"),
        headers=APPLY,
        expect=201,
    )
    path = f"{MAPS}/colours?fieldManager=weather"
    same = await ask("PATCH", path, settings(sky="blue"), headers=APPLY)
    assert len(same["metadata"]["managedFields"]) == 2
    refused = await ask("PATCH", path, settings(sky="grey"), headers=APPLY, expect=409)
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "painter": .data.sky'
    assert refused["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    taken = await ask("PATCH", f"{path}&force=true", settings(sky="grey"), headers=APPLY)
    assert taken["data"] == {"sky": "grey"}
    assert [known["manager"] for known in taken["metadata"]["managedFields"]] == ["weather"]


async def test_an_apply_names_its_manager(ask: Asking) -> None:
    found = await ask("PATCH", f"{MAPS}/colours", settings(), headers=APPLY, expect=400)
    assert "fieldManager is required" in found["message"]


async def test_pods_are_placed_where_they_fit(working: Asking) -> None:
    cordon = {"spec": {"unschedulable": True}}
    await working("PATCH", f"{NODES}/metal-1", cordon, headers=MERGE)
    await working("POST", PODS, pod("web"), expect=201)
    placed = await working("GET", f"{PODS}/web")
    assert placed["spec"]["nodeName"] == "metal-2"
    assert placed["status"]["phase"] == "Running"
    there = {"fieldSelector": "spec.nodeName=metal-2"}
    assert await working.names(PODS, **there) == ["web"]


async def test_a_pod_that_fits_nowhere_waits(ask: Asking) -> None:
    await ask("POST", PODS, pod("web"), expect=201)
    assert (await ask("GET", f"{PODS}/web"))["status"]["phase"] == "Pending"
    await ask("POST", DAEMONSETS, NETWORK, expect=201)
    assert (await ask("GET", f"{PODS}/web"))["status"]["phase"] == "Running"


async def test_every_node_has_its_daemons_and_every_control_plane_its_pods(
    working: Asking,
) -> None:
    path = "/api/v1/namespaces/kube-system/pods"
    names = await working.names(path, fieldSelector="spec.nodeName=cp-1")
    wanted = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler")
    for prefix in (*wanted, "network"):
        assert [name for name in names if name.startswith(f"{prefix}-")], prefix
    network = await working("GET", f"{DAEMONSETS}/network")
    assert network["status"]["numberReady"] == 3


async def test_a_daemons_pod_that_is_deleted_comes_again(working: Asking) -> None:
    path = "/api/v1/namespaces/kube-system/pods"
    on_metal = {"fieldSelector": "spec.nodeName=metal-1", "labelSelector": "app=network"}
    (before,) = await working.names(path, **on_metal)
    await working("DELETE", f"{path}/{before}")
    (after,) = await working.names(path, **on_metal)
    assert after != before


async def test_a_deployment_keeps_as_many_pods_as_it_wants(working: Asking) -> None:
    await working("POST", DEPLOYMENTS, deployment("web", 3), expect=201)
    first = await working.names(PODS)
    assert len(first) == 3
    await working("DELETE", f"{PODS}/{first[0]}")
    second = await working.names(PODS)
    assert len(second) == 3
    assert first[0] not in second
    await working("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 1}}, headers=MERGE)
    assert len(await working.names(PODS)) == 1
    assert (await working("GET", f"{DEPLOYMENTS}/web"))["metadata"]["generation"] == 2
    await working("DELETE", f"{DEPLOYMENTS}/web")
    assert await working.names(PODS) == []


async def test_pods_of_a_node_that_is_gone_run_elsewhere(working: Asking) -> None:
    await working("POST", DEPLOYMENTS, deployment("web", 4), expect=201)
    await working("DELETE", f"{NODES}/metal-1")
    found = await working("GET", PODS)
    assert [item["spec"]["nodeName"] for item in found["items"]] == ["metal-2"] * 4


@pytest.mark.parametrize(
    ("amounts", "allowed"),
    [
        ({"minAvailable": 3}, 0),
        ({"minAvailable": 2}, 1),
        ({"minAvailable": "34%"}, 1),
        ({"maxUnavailable": 0}, 0),
        ({"maxUnavailable": 2}, 2),
        ({"maxUnavailable": "50%"}, 2),
    ],
)
async def test_a_budget_knows_what_it_can_spare(
    working: Asking, amounts: dict[str, Any], allowed: int
) -> None:
    await working("POST", DEPLOYMENTS, deployment("web", 3), expect=201)
    await working("POST", BUDGETS, budget("web", **amounts), expect=201)
    status = (await working("GET", f"{BUDGETS}/web"))["status"]
    assert status["currentHealthy"] == 3
    assert status["disruptionsAllowed"] == allowed


async def test_an_eviction_waits_for_its_budget(working: Asking) -> None:
    for name in ("web-1", "web-2"):
        await working("POST", PODS, pod(name, app="web"), expect=201)
    await working("POST", BUDGETS, budget("web", minAvailable=2), expect=201)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}}
    reply = await working.http.post(f"{PODS}/web-1/eviction", json=eviction)
    assert reply.status_code == 429
    assert "Retry-After" not in reply.headers
    assert reply.json()["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    (why,) = reply.json()["details"]["causes"]
    assert why["reason"] == "DisruptionBudget"
    assert why["message"] == ("The disruption budget web needs 2 healthy pods and has 2 currently")
    await working("POST", PODS, pod("web-3", app="web"), expect=201)
    await working("POST", f"{PODS}/web-1/eviction", eviction, expect=201)
    assert await working.names(PODS) == ["web-2", "web-3"]
    await working("POST", f"{PODS}/web-1/eviction", eviction, expect=404)


async def test_two_budgets_over_one_pod_are_an_error(working: Asking) -> None:
    await working("POST", PODS, pod("web-1", app="web"), expect=201)
    for name in ("one", "two"):
        body = budget("web", minAvailable=0) | {"metadata": {"name": name}}
        await working("POST", BUDGETS, body, expect=201)
    found = await working("POST", f"{PODS}/web-1/eviction", {}, expect=500)
    assert "more than one PodDisruptionBudget" in found["message"]


async def test_without_quorum_nothing_is_answered_until_it_is_back(ask: Asking) -> None:
    site = ask.site
    for name in ("cp-2", "cp-3"):
        await site.control_plane(name)
    await site.clusters.host_stopped(site.addresses["cp-2"])
    await ask("GET", NODES)
    await site.clusters.host_stopped(site.addresses["cp-3"])
    found = await ask("GET", NODES, expect=500)
    assert found["message"] == "etcdserver: request timed out"
    readiness = await ask.http.get("/readyz")
    assert readiness.status_code == 500
    assert "[-]etcd failed" in readiness.text
    await site.clusters.host_started(site.addresses["cp-3"], site.uid, "cp-3")
    await ask("GET", NODES)
    assert "readyz check passed" in (await ask.http.get("/readyz?verbose")).text


async def test_every_control_plane_host_serves_the_same(ask: Asking) -> None:
    site = ask.site
    await site.control_plane("cp-2")
    await site.control_plane("cp-3")
    await ask("POST", MAPS, settings(sky="blue"), expect=201)
    url = f"https://{site.addresses['cp-2']}:{site.port}{MAPS}/colours"
    assert (await ask("GET", url)) == (await ask("GET", f"{MAPS}/colours"))
    await site.clusters.host_stopped(site.addresses["cp-1"])
    with pytest.raises(httpx2.ConnectError):
        await ask.http.get("/readyz")
    assert (await ask("GET", url))["data"] == {"sky": "blue"}


async def test_a_host_that_stops_hangs_up_on_watchers(ask: Asking) -> None:
    async with ask.http.stream("GET", MAPS, params={"watch": "1"}) as reply:
        await ask.site.clusters.host_stopped(ask.site.addresses["cp-1"])
        with pytest.raises(httpx2.TransportError):
            await reply.aread()


async def test_serving_twice_and_stopping_twice_change_nothing(ask: Asking) -> None:
    site, address = ask.site, ask.site.addresses["cp-1"]
    await site.servers.serve(site.uid, address)
    await ask("GET", NODES)
    await site.servers.stop(address)
    await site.servers.stop(address)
    await site.servers.serve("no such cluster", address)
    await site.servers.serve(site.uid, address)
    await ask("GET", NODES)


async def test_a_cluster_made_anew_under_its_uid_starts_empty(site: Built) -> None:
    async with site.caller() as http:
        await Asking(site, http)("POST", MAPS, settings(), expect=201)
    await site.clusters.wipe_host(site.addresses["cp-1"])
    await site.initialise()
    async with site.caller() as http:
        ask = Asking(site, http)
        assert await ask.names(MAPS) == []
        assert await ask.names(DAEMONSETS) == ["kube-proxy"]


async def test_a_refusal_is_passed_on_as_it_was_planned(ask: Asking) -> None:
    ask.site.faults.add(
        Fault(
            where=f"kubernetes hello GET {NODES}",
            how=How.REFUSE,
            status=429,
            message="slow down",
            retry_after=7,
        )
    )
    reply = await ask.http.get(NODES)
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "7")
    assert reply.json()["message"] == "slow down"
    assert (await ask.http.get(NODES)).status_code == 200


@pytest.mark.parametrize(("how", "done"), [(How.DROP, []), (How.HALF, ["colours"])])
async def test_a_connection_breaks_before_or_after_the_deed(
    ask: Asking, how: How, done: list[str]
) -> None:
    ask.site.faults.add(Fault(where="kubernetes hello POST *", how=how))
    with pytest.raises(httpx2.TransportError):
        await ask.http.post(MAPS, json=settings())
    assert await ask.names(MAPS) == done


async def test_a_call_that_hangs_holds_nobody_else_up(ask: Asking) -> None:
    ask.site.faults.add(Fault(where="kubernetes hello GET /readyz", how=How.HANG))
    with pytest.raises(httpx2.ReadTimeout):
        await ask.http.get("/readyz", timeout=0.2)
    assert (await ask.http.get("/readyz")).text == "ok"
    assert ask.site.faults.met()[0][1] == ["kubernetes hello GET /readyz"]


async def test_a_slow_call_waits_on_the_sites_clock(tmp_path: Path) -> None:
    clock = HandClock()
    async with built(tmp_path, clock=clock) as site:
        await site.initialise()
        site.faults.add(Fault(where="kubernetes * GET /readyz", how=How.SLOW, seconds=60))
        async with site.caller() as http:
            asking = asyncio.create_task(http.get("/readyz"))
            await eventually(lambda: site.faults.met()[0][1])
            assert not asking.done()

            async def answered() -> bool:
                await clock.turn(60)
                return asking.done()

            await eventually(answered)
            assert (await asking).text == "ok"


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.sim.apiserver import built
from tests.sim.kubernetes.test_servers import MAPS, MERGE, NODES, Asking, settings

async def main(home):
    async with built(home, path=home / "ledger") as site:
        await site.initialise()
        await site.worker("metal-1")
        async with site.caller() as http:
            ask = Asking(site, http)
            await ask("POST", MAPS, settings(sky="blue"), expect=201)
            await ask("POST", MAPS, settings("gone"), expect=201)
            await ask("DELETE", f"{MAPS}/gone")
            cordon = {"spec": {"unschedulable": True}, "metadata": {"labels": {"rack": "a"}}}
            await ask("PATCH", f"{NODES}/metal-1", cordon, headers=MERGE)
            print(site.uid, site.prefix, site.port, flush=True)
            await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    uid, prefix, port = (await process.stdout.readline()).decode().split()
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    async with built(tmp_path, path=tmp_path / "ledger") as site:
        site.uid, site.prefix, site.port = uid, prefix, int(port)
        await site.clusters.host_started(f"{prefix}.1", uid, "cp-1")
        await site.clusters.host_started(f"{prefix}.2", uid, "metal-1")
        async with site.caller() as http:
            ask = Asking(site, http)
            assert (await ask("GET", f"{MAPS}/colours"))["data"] == {"sky": "blue"}
            assert await ask.names(MAPS) == ["colours"]
            node = await ask("GET", f"{NODES}/metal-1")
            assert node["metadata"]["labels"]["rack"] == "a"
            assert node["spec"]["unschedulable"]


async def test_a_host_with_nothing_to_serve_is_not_served(tmp_path: Path) -> None:
    async with built(tmp_path) as site:
        await site.servers.serve(site.uid, f"{site.prefix}.1")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(f"{site.prefix}.1", site.port)
