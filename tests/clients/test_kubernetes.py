"""Our Kubernetes client against simulated API servers: what it promises, and how it fails."""

import asyncio
import base64
import json
import secrets
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clients.kubernetes import CLOSED, KubernetesApi
from clients.kubernetes_network import NETWORK
from domain import ports
from domain.errors import Failed, NotFound, Unavailable
from domain.machine import Label, Role, Slot
from domain.ports import Node, Supply
from domain.releases import Release
from domain.seen import Readiness
from domain.share import PoolMade, PoolTerms, Share
from domain.storage_home import COMPONENT, KINDS, OURS
from sim.clusters import authority
from sim.clusters.cluster import Node as SimulatedNode
from sim.clusters.cluster import Taint
from sim.faults import Fault, How
from tests.sim.apiserver import ENDPOINT, NAME, VERSION, Built, built
from tests.sim.region import eventually
from tests.vaults import MemoryVault

CONTROL_PLANE_TAINT = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Built]:
    """A cluster of one control-plane node and one worker, without a pod network."""
    async with built(tmp_path) as site:
        await site.initialise()
        await site.worker("metal-1")
        yield site


@pytest.fixture
def vault(site: Built) -> MemoryVault:
    vault = MemoryVault()
    vault.secrets[ports.kubeconfig(site.uid)] = site.cluster.kubeconfig.encode()
    return vault


@pytest.fixture
async def api(vault: MemoryVault) -> AsyncIterator[KubernetesApi]:
    api = KubernetesApi(vault, resolve=False, timeout_seconds=2)
    yield api
    await api.close()


def node(site: Built, name: str = "metal-1", **other: Any) -> Node:
    control_plane = name.startswith("cp-")
    slot = Slot(
        cluster_uid=site.uid,
        cluster=NAME,
        name=name,
        role=Role.CONTROL_PLANE if control_plane else Role.WORKER,
        pool="control-plane" if control_plane else "metal",
        instance_type="large",
        labels=(Label(name="rack", value="a"),),
        release=Release(version=VERSION, series="jammy"),
        public_key="ssh-ed25519 none",
    )
    addresses = other.pop("addresses", (site.addresses["cp-1"],))
    return Node(slot=slot, endpoint=ENDPOINT, addresses=addresses)


def labels(site: Built, name: str) -> dict[str, str]:
    found = site.clusters.node(site.uid, name)
    assert found is not None
    return found.labels


def calls(site: Built) -> list[str]:
    return [call.split(maxsplit=2)[2] for _, met in site.faults.met() for call in met]


def listen(site: Built) -> None:
    """Have every call written down, and none disturbed."""
    site.faults.add(Fault(where="kubernetes *", how=How.SLOW, seconds=0, times=1000))


async def test_a_running_api_is_ready(api: KubernetesApi, site: Built) -> None:
    assert await api.ready(node(site))


async def test_a_cluster_is_told_of_its_pool(
    api: KubernetesApi, site: Built, vault: MemoryVault
) -> None:
    share = Share.of(site.uid, PoolTerms())
    vault.secrets[share.identity.secret] = b"a key"
    made = PoolMade(wanted=share.pool, cluster="an-fsid", mons=("10.0.0.1:6789", "10.0.0.2:6789"))
    for _ in range(2):
        await api.supply(Supply(node=node(site, "cp-1"), made=made, identity=share.identity))
    paths = {
        "config": "/api/v1/namespaces/ceph-csi/configmaps/ceph-csi-config",
        "secret": "/api/v1/namespaces/ceph-csi/secrets/csi-rbd-secret",
        "class": "/apis/storage.k8s.io/v1/storageclasses/ceph-rbd",
    }
    async with site.caller() as http:
        kept = {name: (await http.get(path)).json() for name, path in paths.items()}
    [cluster] = json.loads(kept["config"]["data"]["config.json"])
    assert cluster == {"clusterID": "an-fsid", "monitors": list(made.mons)}
    assert kept["class"]["parameters"]["pool"] == share.pool.name
    assert kept["class"]["parameters"]["clusterID"] == "an-fsid"
    secret = kept["secret"]
    said = secret.get("stringData") or {
        name: base64.b64decode(value).decode() for name, value in secret["data"].items()
    }
    assert said == {"userID": share.identity.user, "userKey": "a key"}


async def test_what_runs_there_of_storage_is_seen(api: KubernetesApi, site: Built) -> None:
    deployment = {
        "metadata": {"name": "rook-ceph-tools", "namespace": "default", "labels": {"app": "tools"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "tools"}},
            "template": {
                "metadata": {"labels": {"app": "tools", COMPONENT: OURS}},
                "spec": {"containers": [{"name": "tools", "image": "tools:1"}]},
            },
        },
    }
    async with site.caller() as http:
        made = await http.post("/apis/apps/v1/namespaces/default/deployments", json=deployment)
        assert made.is_success, made.text
    found = await api.home(node(site, "cp-1"), "default")
    assert [each.node.name for each in found.members] == ["cp-1", "metal-1"]
    first = found.members[0]
    assert (first.kubelet, first.cpus, first.memory_bytes) == (VERSION, 16, 65536000 * 1024)
    assert first.node.internal == site.addresses["cp-1"]
    assert first.node.roles == ("control-plane",)
    assert first.node.created is not None
    assert [(each.name, each.group) for each in found.deployments] == [("rook-ceph-tools", "tools")]
    assert (found.is_rook, found.incomplete) == (False, ())


async def test_kinds_that_may_not_be_listed_are_named(api: KubernetesApi, site: Built) -> None:
    forbidden = {"where": "kubernetes hello GET /apis/ceph.rook.io/*", "how": How.REFUSE}
    site.faults.add(Fault(**forbidden, status=403, message="no", times=4))
    assert (await api.home(node(site, "cp-1"), "rook-ceph")).incomplete == tuple(KINDS)
    site.faults.add(Fault(**forbidden, status=500, message="no"))
    with pytest.raises(Unavailable):
        await api.home(node(site, "cp-1"), "rook-ceph")


async def test_an_api_that_refuses_connections_is_not_ready(
    api: KubernetesApi, site: Built
) -> None:
    await site.servers.stop(site.addresses["cp-1"])
    assert not await api.ready(node(site))


async def test_an_api_without_quorum_is_not_ready(api: KubernetesApi, site: Built) -> None:
    site.clusters.set_member_health(site.uid, "cp-1", healthy=False)
    assert not await api.ready(node(site))


async def test_a_version_is_asked_of_one_server_and_no_other(
    vault: MemoryVault, site: Built
) -> None:
    """While control planes are upgraded the endpoint may lead to any of them."""
    await site.control_plane("cp-2")
    first, second = site.addresses["cp-1"], site.addresses["cp-2"]
    await site.clusters.replace_control_plane(site.uid, first, "1.33.0")
    for resolve in (False, True):
        api = KubernetesApi(vault, resolve=resolve, timeout_seconds=2)
        assert await api.api_version(node(site, "cp-1", addresses=(first, second))) == "1.33.0"
        assert await api.api_version(node(site, "cp-2", addresses=(second, first))) == VERSION
        await site.servers.stop(first)
        assert await api.api_version(node(site, "cp-1", addresses=(first, second))) is None
        await site.servers.serve(site.uid, first)
        assert await api.api_version(node(site, "cp-1", addresses=())) is None
        await api.close()


async def test_whether_a_server_answers_is_asked_of_it_alone(
    api: KubernetesApi, site: Built
) -> None:
    await site.control_plane("cp-2")
    first, second = site.addresses["cp-1"], site.addresses["cp-2"]
    both = [node(site, "cp-1", addresses=(first,)), node(site, "cp-2", addresses=(second,))]
    for _ in range(2):
        assert [await api.serves(each) for each in both] == [True, True]
        await site.servers.stop(first)
        assert [await api.serves(each) for each in both] == [False, True]
        await site.servers.serve(site.uid, first)


@pytest.mark.parametrize(("times", "answers"), [(1, True), (2, False)])
async def test_one_connection_that_breaks_says_nothing_of_a_server(
    api: KubernetesApi, site: Built, times: int, answers: bool
) -> None:
    where = "kubernetes hello GET /api/v1/nodes/cp-1"
    site.faults.add(Fault(where=where, how=How.DROP, times=times))
    assert await api.serves(node(site, "cp-1")) is answers


@pytest.mark.parametrize(
    "fault",
    [
        {"how": How.REFUSE, "status": 503},
        {"how": How.DROP},
        {"how": How.HALF},
        {"how": How.HANG},
    ],
)
async def test_a_server_that_is_being_replaced_has_no_version(
    vault: MemoryVault, site: Built, fault: dict[str, Any]
) -> None:
    site.faults.add(Fault(where="kubernetes hello GET /version", **fault))
    hurried = KubernetesApi(vault, resolve=False, timeout_seconds=0.5)
    master = node(site, "cp-1")
    assert await hurried.api_version(master) is None
    assert await hurried.api_version(master) == VERSION
    await hurried.close()


async def test_a_server_that_we_do_not_trust_is_no_matter_of_waiting(
    vault: MemoryVault, site: Built
) -> None:
    other = authority.authority("kubernetes")
    user = authority.client(other, "kubernetes-admin", "kubeadm:cluster-admins")
    server = f"https://{ENDPOINT}:{site.port}"
    forged = authority.kubeconfig(server, other.certificate, "kubernetes-admin", user)
    vault.secrets[ports.kubeconfig(site.uid)] = forged.encode()
    api = KubernetesApi(vault, resolve=False, timeout_seconds=2)
    with pytest.raises(Failed, match="do not trust each other at GET /version"):
        await api.api_version(node(site, "cp-1"))
    await api.close()


async def test_an_api_that_hangs_is_not_ready(vault: MemoryVault, site: Built) -> None:
    site.faults.add(Fault(where="kubernetes hello GET /readyz", how=How.HANG))
    hurried = KubernetesApi(vault, resolve=False, timeout_seconds=0.2)
    assert not await hurried.ready(node(site))
    await hurried.close()


async def test_readiness_takes_a_connection_of_its_own_each_time(
    api: KubernetesApi, site: Built
) -> None:
    assert await api.ready(node(site))
    await site.servers.stop(site.addresses["cp-1"])
    assert not await api.ready(node(site))


async def test_the_first_address_that_takes_connections_is_used(
    api: KubernetesApi, site: Built
) -> None:
    nobody = f"{site.prefix}.77"
    there = node(site, addresses=(nobody, site.addresses["cp-1"]))
    assert await api.ready(there)
    await api.label(there)
    assert labels(site, "metal-1")["rack"] == "a"


async def test_addresses_may_be_asked_for_by_the_endpoints_name(
    vault: MemoryVault, site: Built
) -> None:
    asked = []

    async def addresses(endpoint: str) -> Sequence[str]:
        asked.append(endpoint)
        return [site.addresses["cp-1"]]

    api = KubernetesApi(vault, resolve=False, addresses=addresses)
    assert await api.ready(node(site, addresses=()))
    assert asked == [ENDPOINT]
    await api.close()


async def test_without_any_address_there_is_nobody_to_ask(api: KubernetesApi, site: Built) -> None:
    with pytest.raises(Unavailable, match=f"no address is known for {ENDPOINT}"):
        await api.node_ready(node(site, addresses=()))


async def test_the_server_of_the_kubeconfig_is_used_where_names_are_known(
    vault: MemoryVault, site: Built
) -> None:
    vault.secrets[ports.kubeconfig(site.uid)] = site.kubeconfig().encode()
    api = KubernetesApi(vault)
    assert await api.ready(node(site, addresses=()))
    assert await api.node_ready(node(site, addresses=())) is None
    await api.close()


async def test_a_name_that_nobody_knows_is_not_ready(vault: MemoryVault, site: Built) -> None:
    api = KubernetesApi(vault, resolve=True)
    assert not await api.ready(node(site))
    await api.close()


async def test_the_pod_network_makes_nodes_ready(api: KubernetesApi, site: Built) -> None:
    assert await api.node_ready(node(site)) is None
    await api.install_network(node(site))
    assert await api.node_ready(node(site)) == VERSION


async def test_applying_the_pod_network_twice_changes_nothing(
    api: KubernetesApi, site: Built
) -> None:
    await api.install_network(node(site))
    before = dict(site.clusters.objects(site.uid))
    await api.install_network(node(site))
    assert site.clusters.objects(site.uid) == before
    network = before["daemonsets.apps/kube-system/windlass-network"]
    assert [field["manager"] for field in network["metadata"]["managedFields"]] == ["windlass"]


async def test_the_pod_network_takes_the_subnet_that_clusters_are_made_with(site: Built) -> None:
    documents = json.loads(NETWORK.read_text())["items"]
    (settings,) = [known for known in documents if known["kind"] == "ConfigMap"]
    assert json.loads(settings["data"]["net-conf.json"])["Network"] == site.cluster.pod_subnet


async def test_what_others_changed_in_the_pod_network_is_taken_back(
    api: KubernetesApi, site: Built
) -> None:
    await api.install_network(node(site))
    await site.kubectl(
        *("-n", "kube-system", "patch", "configmap", "windlass-network"),
        *("--type=merge", "-p", json.dumps({"data": {"net-conf.json": "{}"}})),
    )
    await api.install_network(node(site))
    settings = site.clusters.objects(site.uid)["configmaps/kube-system/windlass-network"]
    assert settings["data"]["net-conf.json"] != "{}"


async def test_another_network_may_be_installed(
    vault: MemoryVault, site: Built, tmp_path: Path
) -> None:
    manifest = tmp_path / "network.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n---\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: other}\n"
    )
    api = KubernetesApi(vault, resolve=False, network=manifest)
    await api.install_network(node(site))
    assert "configmaps/other/settings" in site.clusters.objects(site.uid)
    await api.close()


async def test_a_cluster_gets_the_network_that_goes_with_its_release(
    vault: MemoryVault, site: Built, tmp_path: Path
) -> None:
    manifests = {}
    for version in ("usual", VERSION):
        manifests[version] = tmp_path / f"{version}.yaml"
        manifests[version].write_text(
            "apiVersion: v1\nkind: ConfigMap\n"
            "metadata: {name: network, namespace: default}\n"
            f"data: {{for: {version}}}\n"
        )
    networks = {VERSION: manifests[VERSION]}
    api = KubernetesApi(vault, resolve=False, network=manifests["usual"], networks=networks)
    for renewed, version in (("9.9.9", "usual"), (VERSION, VERSION)):
        asked = node(site)
        slot = asked.slot.model_copy(update={"release": Release(version=renewed, series="jammy")})
        await api.install_network(asked.model_copy(update={"slot": slot}))
        applied = site.clusters.objects(site.uid)["configmaps/default/network"]
        assert applied["data"] == {"for": version}
    await api.close()


@pytest.mark.parametrize(
    "manifest",
    ["no: manifest", "{", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}", "[1]"],
)
async def test_a_manifest_that_cannot_be_applied_fails_before_anything_is(
    vault: MemoryVault, site: Built, tmp_path: Path, manifest: str
) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(manifest)
    listen(site)
    with pytest.raises(Failed, match=r"network\.yaml cannot be applied"):
        await KubernetesApi(vault, resolve=False, network=path).install_network(node(site))
    assert calls(site) == []


async def test_a_node_that_has_not_joined_is_not_ready(api: KubernetesApi, site: Built) -> None:
    assert await api.node_ready(node(site, "metal-9")) is None


async def test_a_worker_gets_the_labels_of_its_slot(api: KubernetesApi, site: Built) -> None:
    await api.label(node(site))
    assert labels(site, "metal-1") == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "metal-1",
        "kubernetes.io/os": "linux",
        "node-pool": "metal",
        "node-role.kubernetes.io/worker": "",
        "node.kubernetes.io/instance-type": "large",
        "rack": "a",
    }


async def test_a_node_that_lacks_nothing_is_not_written_to(api: KubernetesApi, site: Built) -> None:
    await api.label(node(site))
    listen(site)
    await api.label(node(site))
    assert calls(site) == ["GET /api/v1/nodes/metal-1"]


async def test_a_control_plane_without_workers_takes_every_pod(
    api: KubernetesApi, site: Built
) -> None:
    other = Taint(key="maintenance", effect="NoExecute", value="tonight")
    found = site.clusters.node(site.uid, "cp-1")
    assert found is not None
    site.clusters.keep_node(found.model_copy(update={"taints": [CONTROL_PLANE_TAINT, other]}))
    await api.label(node(site, "cp-1").model_copy(update={"workless": True}))
    again = site.clusters.node(site.uid, "cp-1")
    assert again is not None
    assert again.taints == [other]


async def test_a_control_plane_keeps_its_taint_and_gets_it_back(
    api: KubernetesApi, site: Built
) -> None:
    await api.label(node(site, "cp-1"))
    found = site.clusters.node(site.uid, "cp-1")
    assert found is not None
    assert found.taints == [CONTROL_PLANE_TAINT]
    other = Taint(key="maintenance", effect="NoExecute", value="tonight")
    site.clusters.keep_node(found.model_copy(update={"taints": [other]}))
    await api.label(node(site, "cp-1"))
    again = site.clusters.node(site.uid, "cp-1")
    assert again is not None
    assert again.taints == [other, CONTROL_PLANE_TAINT]


async def test_labelling_a_node_that_is_not_there_is_not_found(
    api: KubernetesApi, site: Built
) -> None:
    with pytest.raises(NotFound, match='answered 404 to GET nodes/metal-9: nodes "metal-9"'):
        await api.label(node(site, "metal-9"))


async def test_labelling_goes_on_after_another_writer(api: KubernetesApi, site: Built) -> None:
    conflict = Fault(where="kubernetes hello PATCH *", how=How.REFUSE, status=409, times=2)
    site.faults.add(conflict)
    await api.label(node(site))
    assert labels(site, "metal-1")["rack"] == "a"


async def test_labelling_gives_way_to_writers_that_never_end(
    api: KubernetesApi, site: Built
) -> None:
    conflict = Fault(where="kubernetes hello PATCH *", how=How.REFUSE, status=409, times=99)
    site.faults.add(conflict)
    with pytest.raises(Unavailable, match="met another writer"):
        await api.label(node(site))


async def test_deleting_a_node_twice_is_success(api: KubernetesApi, site: Built) -> None:
    await api.delete_node(node(site))
    assert site.clusters.node(site.uid, "metal-1") is None
    await api.delete_node(node(site))


async def test_deleting_a_node_of_a_cluster_that_never_was_is_success(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    vault.secrets.clear()
    await api.delete_node(node(site))
    assert site.clusters.node(site.uid, "metal-1") is not None


async def test_a_delete_that_was_done_and_not_answered_may_be_repeated(
    api: KubernetesApi, site: Built
) -> None:
    site.faults.add(Fault(where="kubernetes hello DELETE *", how=How.HALF))
    with pytest.raises(Unavailable, match=r"did not answer DELETE nodes/metal-1"):
        await api.delete_node(node(site))
    assert site.clusters.node(site.uid, "metal-1") is None
    await api.delete_node(node(site))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Failed),
        (401, Failed),
        (403, Failed),
        (422, Failed),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
async def test_refusals_are_told_apart(
    api: KubernetesApi, site: Built, status: int, kind: type[Exception]
) -> None:
    site.faults.add(
        Fault(where="kubernetes hello GET *", how=How.REFUSE, status=status, message="not today")
    )
    words = f"the Kubernetes API of hello answered {status} to GET nodes/metal-1: not today"
    with pytest.raises(kind, match=words):
        await api.node_ready(node(site))


@pytest.mark.parametrize("how", [How.DROP, How.HANG])
async def test_silence_is_unavailable(vault: MemoryVault, site: Built, how: How) -> None:
    api = KubernetesApi(vault, resolve=False, timeout_seconds=0.3)
    site.faults.add(Fault(where="kubernetes hello GET *", how=how))
    with pytest.raises(Unavailable, match=r"did not answer GET nodes/metal-1: \w+"):
        await api.node_ready(node(site))
    await api.close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nno\n", Unavailable),
        (
            b"HTTP/1.1 403 No\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\nno\n",
            Failed,
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno\n", Unavailable),
        (b"SSH-2.0-surprise\r\n", Unavailable),
    ],
)
async def test_what_is_not_kubernetes_is_not_taken_for_it(
    vault: MemoryVault, api: KubernetesApi, site: Built, answer: bytes, kind: type[Exception]
) -> None:
    async with speaking(answer) as url:
        document = json.loads(site.kubeconfig())
        document["clusters"][0]["cluster"] = {"server": url}
        vault.secrets[ports.kubeconfig(site.uid)] = json.dumps(document).encode()
        with pytest.raises(kind):
            await api.node_ready(node(site, addresses=("127.0.0.1",)))


async def test_a_cluster_of_another_authority_is_not_trusted(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    document = json.loads(site.kubeconfig())
    stranger = authority.authority("stranger").certificate
    encoded = base64.b64encode(stranger.encode()).decode()
    document["clusters"][0]["cluster"]["certificate-authority-data"] = encoded
    vault.secrets[ports.kubeconfig(site.uid)] = json.dumps(document).encode()
    with pytest.raises(Failed, match=r"do not trust each other at GET /readyz"):
        await api.ready(node(site))
    with pytest.raises(Failed, match=r"do not trust each other at GET nodes/metal-1"):
        await api.node_ready(node(site))


async def test_a_client_that_the_cluster_does_not_know_fails(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    """A certificate that is refused while the connection is secured, as a proxy would."""
    pair = site.cluster.servers[site.addresses["cp-1"]]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = site.home / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context.load_cert_chain(file)
    context.load_verify_locations(cadata=authority.authority("stranger").certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listening:
        document = json.loads(site.kubeconfig())
        port = listening.getsockname()[1]
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        vault.secrets[ports.kubeconfig(site.uid)] = json.dumps(document).encode()
        refusing = asyncio.create_task(asyncio.to_thread(_refuse, listening, context))
        with pytest.raises(Failed, match="do not trust each other"):
            await api.node_ready(node(site, addresses=("127.0.0.1",)))
        await refusing


def _refuse(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Take a connection, refuse its certificate, and close once the other side has heard so."""
    accepted, _ = listening.accept()
    secured = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    with pytest.raises(ssl.SSLError):
        secured.do_handshake()
    with socket.socket(fileno=secured.detach()) as plain:
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(4096):
            pass


async def test_a_user_who_may_nothing_fails(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    nobody = authority.client(site.cluster.authority, "nobody", "nobodies")
    document = json.loads(site.kubeconfig())
    document["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(nobody.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(nobody.key.encode()).decode(),
    }
    vault.secrets[ports.kubeconfig(site.uid)] = json.dumps(document).encode()
    with pytest.raises(Failed, match='User "nobody" cannot get resource "nodes"'):
        await api.node_ready(node(site))


@pytest.mark.parametrize(
    "kubeconfig",
    [b"", b"{", b"[]", b"{}", b'{"clusters": [], "contexts": [], "current-context": "gone"}'],
)
async def test_a_kubeconfig_that_is_none_fails(
    vault: MemoryVault, api: KubernetesApi, site: Built, kubeconfig: bytes
) -> None:
    vault.secrets[ports.kubeconfig(site.uid)] = kubeconfig
    with pytest.raises(Failed, match="the kubeconfig of hello"):
        await api.node_ready(node(site))


async def test_a_spoilt_kubeconfig_is_not_quoted(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    """Neither by the message nor by what it came from, since Temporal keeps both."""
    key = secrets.token_hex(32)
    kubeconfig = f"users: [{{user: {{client-key-data: '{key}' : }}}}]".encode()
    vault.secrets[ports.kubeconfig(site.uid)] = kubeconfig
    with pytest.raises(Failed, match="the kubeconfig of hello cannot be read: ParserError") as no:
        await api.node_ready(node(site))
    assert key[-16:] not in "".join(traceback.format_exception(no.value))


async def test_credentials_that_are_none_fail(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    document = json.loads(site.kubeconfig())
    document["users"][0]["user"]["client-key-data"] = base64.b64encode(b"no key").decode()
    vault.secrets[ports.kubeconfig(site.uid)] = json.dumps(document).encode()
    with pytest.raises(Failed, match="cannot be used"):
        await api.ready(node(site))
    with pytest.raises(Failed, match="cannot be used"):
        await api.node_ready(node(site))


async def test_a_control_plane_begun_anew_is_reached_with_its_new_credentials(
    vault: MemoryVault, api: KubernetesApi, site: Built
) -> None:
    await api.label(node(site))
    await site.clusters.wipe_host(site.addresses["cp-1"])
    await site.initialise("cp-1")
    await site.worker("metal-1")
    vault.secrets[ports.kubeconfig(site.uid)] = site.cluster.kubeconfig.encode()
    await api.label(node(site))
    assert labels(site, "metal-1")["rack"] == "a"


async def test_many_clusters_are_served_with_few_clients(vault: MemoryVault, site: Built) -> None:
    api = KubernetesApi(vault, resolve=False, clients=2)
    there = node(site)
    several = []
    for _ in range(8):
        slot = there.slot.model_copy(update={"cluster_uid": secrets.token_hex(16)})
        secret = site.cluster.kubeconfig.encode()
        vault.secrets[ports.kubeconfig(slot.cluster_uid)] = secret
        several.append(there.model_copy(update={"slot": slot}))
    found = await asyncio.gather(*(api.node_ready(each) for each in several * 4))
    assert found == [None] * 32
    await api.close()


async def test_closing_waits_for_nobody_and_disturbs_nobody(
    api: KubernetesApi, site: Built
) -> None:
    site.faults.add(Fault(where="kubernetes hello GET *", how=How.SLOW, seconds=0.2))
    asking = asyncio.create_task(api.node_ready(node(site)))
    await eventually(lambda: calls(site))
    await api.close()
    assert await asking is None


@asynccontextmanager
async def speaking(answer: bytes) -> AsyncIterator[str]:
    """A server that says this to whoever says anything."""

    async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(said, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield f"http://{host}:{port}"


async def test_all_nodes_are_seen_in_one_call(api: KubernetesApi, site: Built) -> None:
    site.clusters.network_applied(site.uid)
    listen(site)
    first, worker = sorted(await api.observe(node(site)), key=lambda each: each.name)
    assert calls(site) == ["GET /api/v1/nodes"]
    assert (first.name, first.readiness, first.kubelet) == ("cp-1", Readiness.READY, VERSION)
    assert (worker.name, worker.schedulable, worker.unwanted) == ("metal-1", True, False)
    assert worker.since is not None


async def test_a_node_that_somebody_marked_to_go_first_is_seen_as_such(
    api: KubernetesApi, site: Built
) -> None:
    found = site.clusters.node(site.uid, "metal-1")
    assert found is not None
    found.annotations["cluster.k8s.io/delete-machine"] = "yes"
    seen = {each.name: each.unwanted for each in await api.observe(node(site))}
    assert seen == {"cp-1": False, "metal-1": True}


async def test_a_node_whose_host_is_down_is_unknown_and_a_closed_one_is_closed(
    api: KubernetesApi, site: Built
) -> None:
    site.clusters.network_applied(site.uid)
    await api.cordon(node(site))
    await site.clusters.host_stopped(site.addresses["metal-1"])
    _, worker = sorted(await api.observe(node(site)), key=lambda each: each.name)
    assert (worker.readiness, worker.reason) == (Readiness.UNKNOWN, "NodeStatusUnknown")
    assert not worker.schedulable


@pytest.mark.parametrize("how", [How.DROP, How.REFUSE])
async def test_an_api_that_flaps_gives_no_answer_and_then_one(
    api: KubernetesApi, site: Built, how: How
) -> None:
    site.faults.add(Fault(where="kubernetes hello GET /api/v1/nodes", how=how, nth=2, times=2))
    answers = []
    for _ in range(4):
        try:
            answers.append(len(await api.observe(node(site))))
        except Unavailable:
            answers.append(0)
    assert answers == [2, 0, 0, 2]


async def test_without_quorum_no_node_is_seen(api: KubernetesApi, site: Built) -> None:
    site.clusters.set_member_health(site.uid, "cp-1", healthy=False)
    with pytest.raises(Unavailable, match="GET nodes"):
        await api.observe(node(site))


async def test_a_node_that_somebody_opened_is_not_ours_to_open_once_it_is_closed_again(
    api: KubernetesApi, site: Built
) -> None:
    def metal() -> SimulatedNode:
        found = site.clusters.node(site.uid, "metal-1")
        assert found is not None
        return found

    await api.cordon(node(site))
    await api.disown(node(site))
    assert CLOSED in metal().annotations, "it is closed, and by us"
    metal().unschedulable = False
    worker = next(each for each in await api.observe(node(site)) if each.name == "metal-1")
    assert (worker.schedulable, worker.closed_by_us) == (True, True)
    for _ in range(2):
        await api.disown(node(site))
    assert CLOSED not in metal().annotations
    metal().unschedulable = True
    await api.cordon(node(site))
    await api.uncordon(node(site))
    assert metal().unschedulable, "whoever closed it opens it"


async def test_no_mark_is_taken_off_a_node_that_is_gone(api: KubernetesApi, site: Built) -> None:
    await api.delete_node(node(site))
    await api.disown(node(site))
