"""The real kubectl against the simulated API, with the kubeconfig that we hand out."""

import asyncio
import json
import re
from typing import Any

import pytest

from sim.faults import Fault, How
from tests.sim.apiserver import NETWORK, VERSION, Built, Said
from tests.support.load import limit

SETTINGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "colours", "namespace": "default"},
    "data": {"sky": "blue", "sea": "green"},
}


@pytest.fixture
async def site(site: Built) -> Built:
    """The same with a pod network, so that its nodes are Ready."""
    await well(site, "apply", "-f", "-", given=NETWORK)
    return site


async def well(site: Built, *words: str, given: Any = None) -> Said:
    """What kubectl says when it succeeds."""
    said = await site.kubectl(*words, given=json.dumps(given) if given else "")
    assert said.code == 0, f"kubectl {' '.join(words)}: {said.out}{said.err}"
    return said


async def words(site: Built, *asked: str) -> list[list[str]]:
    return (await well(site, *asked)).words


def web(name: str, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "web:1"}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def workload(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": web("any")["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


async def test_nodes_are_listed(site: Built) -> None:
    rows = await words(site, "get", "nodes")
    shown = [[name, status, roles, version] for name, status, roles, _, version in rows]
    assert shown == [
        ["cp-1", "Ready", "control-plane", f"v{VERSION}"],
        ["metal-1", "Ready", "<none>", f"v{VERSION}"],
        ["metal-2", "Ready", "<none>", f"v{VERSION}"],
    ]
    assert all(re.fullmatch(r"\d+[smhd]", age) for _, _, _, age, _ in rows)


async def test_nodes_are_listed_at_length(site: Built) -> None:
    said = await well(site, "get", "nodes", "-o", "wide")
    heading = said.out.splitlines()[0].split()
    assert heading[:5] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert heading[5:8] == ["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE"]
    assert heading[8:] == ["KERNEL-VERSION", "CONTAINER-RUNTIME"]
    assert [row[5] for row in said.words] == list(site.addresses.values())
    assert all("Ubuntu" in row for row in said.words)


async def test_the_server_tells_its_version(site: Built) -> None:
    told = json.loads((await well(site, "version", "-o", "json")).out)
    assert told["serverVersion"]["gitVersion"] == f"v{VERSION}"


async def test_a_node_is_described(site: Built) -> None:
    said = await well(site, "describe", "node", "metal-1")
    assert re.search(r"Ready +True .*KubeletReady", said.out)
    assert re.search(rf"InternalIP: +{site.addresses['metal-1']}", said.out)
    assert re.search(r"HolderIdentity: +metal-1", said.out)
    assert re.search(r"kube-system +network-", said.out)


async def test_a_node_is_cordoned_and_back(site: Built) -> None:
    assert (await well(site, "cordon", "metal-1")).out == "node/metal-1 cordoned\n"
    assert (await words(site, "get", "node", "metal-1"))[0][1] == "Ready,SchedulingDisabled"
    again = await well(site, "cordon", "metal-1")
    assert again.out == "node/metal-1 already cordoned\n"
    await well(site, "uncordon", "metal-1")
    assert (await words(site, "get", "node", "metal-1"))[0][1] == "Ready"


async def test_nodes_are_labelled_and_tainted(site: Built) -> None:
    await well(site, "label", "node", "metal-1", "rack=a", "node-role.kubernetes.io/worker=")
    assert (await words(site, "get", "nodes", "-l", "rack=a"))[0][:3] == [
        *("metal-1", "Ready", "worker"),
    ]
    await well(site, "taint", "node", "metal-1", "maintenance=tonight:NoSchedule")
    node = site.clusters.node(site.uid, "metal-1")
    assert node is not None
    assert [taint.key for taint in node.taints] == ["maintenance"]
    await well(site, "taint", "node", "metal-1", "maintenance-")
    await well(site, "annotate", "node", "metal-1", "note=well used")
    node = site.clusters.node(site.uid, "metal-1")
    assert node is not None
    assert (node.taints, node.annotations["note"]) == ([], "well used")


async def test_a_drain_waits_for_the_disruption_budget(site: Built) -> None:
    """kubectl asks again five seconds after a 429; by then somebody has raised a pod elsewhere."""
    await well(site, "apply", "-f", "-", given=web("web-1", "metal-1"))
    await well(site, "apply", "-f", "-", given=web("web-2", "metal-2"))
    await well(site, "create", "pdb", "web", "--selector=app=web", "--min-available=2")
    assert (await words(site, "get", "pdb"))[0][:4] == ["web", "2", "N/A", "0"]
    refused = await site.kubectl("drain", "metal-1", "--force", "--timeout=20s")
    assert refused.code != 0
    assert "cannot delete DaemonSet-managed Pods" in refused.err
    asked = ("drain", "metal-1", "--ignore-daemonsets", "--force", "--timeout=40s")
    draining = asyncio.create_task(site.kubectl(*asked))
    listening = Fault(where="kubernetes * POST */eviction", how=How.SLOW, seconds=0, times=99)
    site.faults.add(listening)
    async with limit(20):
        while not site.faults.met()[0][1]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await well(site, "apply", "-f", "-", given=web("web-3", "metal-2"))
    said = await draining
    assert said.code == 0, said.err
    assert "Cannot evict pod as it would violate the pod's disruption budget." in said.err
    assert "node/metal-1 drained" in said.out
    assert [row[0] for row in await words(site, "get", "pods")] == ["web-2", "web-3"]
    assert (await words(site, "get", "node", "metal-1"))[0][1] == "Ready,SchedulingDisabled"


async def test_what_is_drained_runs_elsewhere(site: Built) -> None:
    await well(site, "apply", "-f", "-", given=workload(4))
    await well(site, "rollout", "status", "deployment/web", "--timeout=10s")
    await well(site, "drain", "metal-1", "--ignore-daemonsets", "--timeout=20s")
    rows = await words(site, "get", "pods", "-o", "wide")
    assert [(row[2], row[6]) for row in rows] == [("Running", "metal-2")] * 4


async def test_a_node_is_deleted(site: Built) -> None:
    said = await well(site, "delete", "node", "metal-1", "--timeout=10s")
    assert said.out == 'node "metal-1" deleted\n'
    assert site.clusters.node(site.uid, "metal-1") is None
    missing = await site.kubectl("get", "node", "metal-1")
    assert missing.code == 1
    assert missing.err == 'Error from server (NotFound): nodes "metal-1" not found\n'


@pytest.mark.parametrize("how", [(), ("--server-side",)])
async def test_objects_are_applied_and_applied_again(site: Built, how: tuple[str, ...]) -> None:
    apply = ("apply", *how, "-f", "-")
    assert "colours" in (await well(site, *apply, given=SETTINGS)).out
    version = ("get", "cm", "colours", "-o", "jsonpath={.metadata.resourceVersion}")
    before = (await well(site, *version)).out
    await well(site, *apply, given=SETTINGS)
    assert (await well(site, *version)).out == before
    await well(site, *apply, given=SETTINGS | {"data": {"sky": "grey"}})
    kept = (await well(site, "get", "cm", "colours", "-o", "jsonpath={.data}")).out
    assert json.loads(kept) == {"sky": "grey"}


async def test_server_side_conflicts_are_told(site: Built) -> None:
    await well(site, "apply", "--server-side", "-f", "-", given=SETTINGS)
    other = SETTINGS | {"data": {"sky": "grey"}}
    asked = ("apply", "--server-side", "--field-manager=weather", "-f", "-")
    refused = await site.kubectl(*asked, given=json.dumps(other))
    assert refused.code != 0
    assert 'conflict with "kubectl": .data.sky' in refused.err
    await well(site, *asked, "--force-conflicts", given=other)


async def test_workloads_of_several_containers_are_patched_by_name(site: Built) -> None:
    await well(site, "apply", "-f", "-", given=workload(1))
    await well(site, "set", "image", "deployment/web", "main=web:2")
    images = ("get", "deployment", "web", "-o", "jsonpath={..image}")
    assert (await well(site, *images)).out == "web:2"
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    await well(site, "patch", "deployment", "web", "-p", json.dumps(side))
    assert (await well(site, *images)).out.split() == ["web:2", "side:1"]
    await well(site, "apply", "-f", "-", given=workload(1))
    assert (await well(site, *images)).out.split() == ["web:1", "side:1"]


async def test_pods_of_all_namespaces_are_listed(site: Built) -> None:
    said = await well(site, "get", "pods", "-A", "-o", "wide")
    assert said.out.split()[:7] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    rows = [row for row in said.words if row[1].startswith("etcd")]
    assert rows[0][:4] == ["kube-system", "etcd-cp-1", "1/1", "Running"]
    assert rows[0][6:8] == [site.addresses["cp-1"], "cp-1"]


async def test_kubectl_waits_and_watches(site: Built) -> None:
    await well(site, "wait", "--for=condition=Ready", "node", "--all", "--timeout=10s")
    await well(site, "rollout", "status", "-n", "kube-system", "ds/network", "--timeout=10s")
    await well(site, "apply", "-f", "-", given=web("web-1"))
    waiting = asyncio.create_task(well(site, "wait", "--for=delete", "pod/web-1", "--timeout=20s"))
    await well(site, "delete", "pod", "web-1", "--timeout=10s")
    await waiting


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (("create", "namespace", "lab"), ("get", "namespace", "lab")),
        (
            ("create", "configmap", "lights", "--from-literal=door=red"),
            ("get", "configmap", "lights"),
        ),
        (
            ("create", "secret", "generic", "key", "--from-literal=word=open"),
            ("get", "secret", "key"),
        ),
        (("create", "serviceaccount", "robot"), ("get", "serviceaccount", "robot")),
        (
            ("create", "deployment", "web", "--image=web:1", "--replicas=2", "--port=80"),
            ("get", "deployment", "web"),
        ),
        (("create", "pdb", "web", "--selector=app=web", "--max-unavailable=50%"), ("get", "pdb")),
        (("run", "once", "--image=web:1", "--labels=app=once"), ("get", "pod", "-l", "app=once")),
    ],
)
async def test_objects_are_created_from_the_command_line(
    site: Built, asked: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    """Much of this is protobuf: kubectl speaks it where it knows the type."""
    await well(site, *asked)
    assert (await well(site, *shown)).code == 0


async def test_who_asks_and_what_they_may_is_told(site: Built) -> None:
    assert (await well(site, "auth", "can-i", "delete", "nodes")).out == "yes\n"
    assert "kubernetes-admin" in (await well(site, "auth", "whoami")).out
    assert "*.*" in (await well(site, "auth", "can-i", "--list")).out


async def test_a_cluster_without_quorum_says_so(site: Built) -> None:
    site.clusters.set_member_health(site.uid, "cp-1", healthy=False)
    said = await site.kubectl("get", "nodes")
    assert said.code == 1
    assert "etcdserver: request timed out" in said.err
    assert (await site.kubectl("get", "--raw", "/readyz")).code == 1


async def test_commands_are_run_in_containers(site: Built) -> None:
    await well(site, "apply", "-f", "-", given=web("web"))
    said = await well(site, "exec", "web", "--", "echo", "a  b")
    assert (said.out, said.err) == ("a  b\n", "")
    said = await site.kubectl("exec", "web", "--", "sh", "-c", "echo so; echo oh >&2; exit 3")
    assert (said.code, said.out) == (3, "so\n")
    assert said.err == "oh\ncommand terminated with exit code 3\n"
    said = await site.kubectl("exec", "-i", "web", "-c", "main", "--", "cat", given="all of it")
    assert (said.code, said.out) == (0, "all of it")
    for script, code in (("exit", 0), ("nonsense", 127), ("echo '", 2), ("false; exit", 1)):
        said = await site.kubectl("exec", "web", "--", "sh", "-c", script)
        assert said.code == code
    for asked, why in (
        (("web", "--", "nonsense"), "executable file not found"),
        (("web", "-c", "other", "--", "true"), "container other"),
        (("gone", "--", "true"), 'pods "gone" not found'),
    ):
        said = await site.kubectl("exec", *asked)
        assert said.code == 1
        assert why in said.err


async def test_a_command_needs_an_upgrade(site: Built) -> None:
    await well(site, "apply", "-f", "-", given=web("web"))
    path = "/api/v1/namespaces/default/pods/web/exec"
    async with site.caller() as api:
        for query, why in (
            ("", "at least 1 of stdin"),
            ("?stdout=true", "specify command"),
            ("?stdout=true&command=ls", "Upgrade request required"),
        ):
            answer = await api.get(path + query)
            assert answer.status_code == 400
            assert why in answer.json()["message"]
        assert (await api.put(f"{path}?stdout=true&command=ls")).status_code == 405
