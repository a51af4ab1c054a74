"""kubeadm on simulated hosts: what it makes of them, and everything it refuses."""

import base64
import hashlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from domain import kubeadm_config
from domain.machine import Machine, Role
from sim.clusters.cluster import Cluster
from sim.clusters.clusters import ApiServers
from sim.faults import Fault, How
from sim.hosts.host import Kind
from sim.pace import INSTANT, HandClock, Pace
from tests.metal import Metal, metal, typed, until

ENDPOINT = "hello.windlass.test"
PORT = 6443
KEY = "5e" * 32


@dataclass
class Desk:
    """An operator who types at the hosts as root."""

    site: Metal
    clock: HandClock

    async def do(self, machine: Machine, line: str) -> tuple[int, str]:
        """What a command comes to: its exit code, and all it wrote."""
        status, out, err = await typed(self.site.host(machine), line, user="root")
        return status, out + err

    async def found(self, name: str = "cp-1") -> Machine:
        """A cluster of one."""
        machine = await self.site.install(name)
        self.put(machine, kubeadm_config.initialising(machine, ENDPOINT, PORT))
        status, said = await self.do(machine, "kubeadm init --config /c --skip-token-print")
        assert status == 0, said
        self.cluster(machine).network_since = self.clock.now()
        return machine

    def put(self, machine: Machine, config: str) -> None:
        self.site.host(machine).disk.write("/c", config.encode())

    def cluster(self, machine: Machine) -> Cluster:
        found = self.site.clusters.get(self.site.host(machine).state.kubeadm.cluster)
        assert found is not None
        return found

    def kind(self, machine: Machine) -> Kind:
        return self.site.host(machine).state.kubeadm.kind

    async def invite(self, machine: Machine, through: Machine, **changed: Any) -> None:
        """Put the configuration for a join in place, with a fresh token and key."""
        _, token = await self.do(through, "kubeadm token create --ttl 30m")
        control_plane = machine.slot.role is Role.CONTROL_PLANE
        if control_plane:
            self.put(through, kubeadm_config.uploading(through, KEY, PORT))
            await self.do(through, "kubeadm init phase upload-certs --upload-certs --config /c")
        wanted = {
            "token": token.strip(),
            "ca_hash": fingerprint(self.cluster(through)),
            "certificate_key": KEY if control_plane else "",
        } | changed
        self.put(machine, kubeadm_config.joining(machine, ENDPOINT, PORT, **wanted))

    async def join(self, machine: Machine) -> tuple[int, str]:
        return await self.do(machine, "kubeadm join --config /c")


def fingerprint(cluster: Cluster) -> str:
    certificate = x509.load_pem_x509_certificate(cluster.authority.certificate.encode())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(key).hexdigest()


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    clock = HandClock()
    async with metal(clock=clock) as site:
        yield Desk(site, clock)
        assert [text for text in site.hosts.inspect()["violations"] if "runs" in text] == []


async def test_init_makes_a_cluster_of_one(desk: Desk) -> None:
    machine = await desk.found()
    cluster = desk.cluster(machine)
    assert desk.kind(machine) is Kind.CONTROL_PLANE
    assert (cluster.endpoint, cluster.port, cluster.version) == (ENDPOINT, PORT, "1.31.4")
    assert desk.site.clusters.alive(cluster.uid)
    assert desk.site.clusters.node_ready(cluster.uid, "cp-1")
    assert (await desk.do(machine, "systemctl is-active kubelet"))[0] == 0
    assert desk.site.hosts.inspect()["violations"] == []


async def test_its_admin_kubeconfig_is_signed_by_the_cluster(desk: Desk) -> None:
    machine = await desk.found()
    _, text = await desk.do(machine, "cat /etc/kubernetes/admin.conf")
    config = yaml.safe_load(text)
    assert config["clusters"][0]["cluster"]["server"] == f"https://{ENDPOINT}:{PORT}"
    data = config["users"][0]["user"]["client-certificate-data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(data))
    assert certificate.subject.rfc4514_string() == "CN=kubernetes-admin,O=kubeadm:cluster-admins"
    root = x509.load_pem_x509_certificate(desk.cluster(machine).authority.certificate.encode())
    certificate.verify_directly_issued_by(root)


async def test_the_serving_certificate_is_good_for_names_and_addresses(desk: Desk) -> None:
    machine = await desk.found()
    pair = desk.cluster(machine).servers[machine.address]
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {ENDPOINT, "cp-1", "kubernetes.default.svc.cluster.local"} <= set(
        names.get_values_for_type(x509.DNSName)
    )
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {machine.address, "127.0.0.1"} <= addresses
    ssl.create_default_context(cadata=desk.cluster(machine).authority.certificate)


async def test_a_second_init_is_refused(desk: Desk) -> None:
    machine = await desk.found()
    status, said = await desk.do(machine, "kubeadm init --config /c")
    assert status == 1
    assert "[ERROR FileAvailable--etc-kubernetes-manifests-etcd.yaml]" in said
    assert "[ERROR Port-6443]: Port 6443 is in use" in said
    assert desk.kind(machine) is Kind.CONTROL_PLANE


async def test_checks_name_what_a_host_lacks(desk: Desk) -> None:
    machine = await desk.site.install("cp-1")
    host = desk.site.host(machine)
    del host.state.packages["containerd"]
    host.disk.write("/proc/sys/net/ipv4/ip_forward", b"0\n")
    status, said = await desk.do(machine, "kubeadm init phase preflight")
    assert status == 1
    assert "\nfailed to create new CRI runtime service: " in said
    assert "ERROR CRI" not in said
    assert "[ERROR FileContent--proc-sys-net-ipv4-ip_forward]" in said
    status, _, err = await typed(host, "kubeadm init")
    assert status == 1
    assert "[ERROR IsPrivilegedUser]: user is not running as root" in err
    assert desk.kind(machine) is Kind.PREFLIGHT_FAILED


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("{", "error converting YAML to JSON"),
        ("apiVersion: kubeadm.k8s.io/v1beta1\nkind: InitConfiguration", "no kind"),
        (
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
            "nodeRegistration: {kubeletExtraArgs: {node-ip: 10.0.0.1}}",
            "cannot unmarshal dict",
        ),
    ],
)
async def test_a_configuration_must_be_of_its_version(
    desk: Desk, config: str, complaint: str
) -> None:
    machine = await desk.site.install("cp-1")
    desk.put(machine, config)
    status, said = await desk.do(machine, "kubeadm init --config /c")
    assert status == 3
    assert complaint in said


async def test_a_version_out_of_reach_is_refused(desk: Desk) -> None:
    machine = await desk.site.install("cp-1")
    config = json.loads('{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration"}')
    desk.put(machine, json.dumps(config | {"kubernetesVersion": "v1.29.0"}))
    status, said = await desk.do(machine, "kubeadm init --config /c")
    assert status == 1
    assert "only supports deploying clusters with the control plane version >= 1.30.0" in said


async def test_a_worker_joins(desk: Desk) -> None:
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    await desk.invite(worker, first)
    status, said = await desk.join(worker)
    assert status == 0, said
    assert "This node has joined the cluster" in said
    cluster = desk.cluster(first)
    node = desk.site.clusters.node(cluster.uid, "w-1")
    assert node is not None
    assert (node.role, node.address, node.version) == (Role.WORKER, worker.address, "1.31.4")
    assert desk.site.clusters.node_ready(cluster.uid, "w-1")
    assert list(cluster.members) == ["cp-1"]


async def test_a_control_plane_host_joins_with_a_vote(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first)
    status, said = await desk.join(second)
    assert status == 0, said
    assert "a new control plane instance was created" in said
    cluster = desk.cluster(first)
    assert {name: member.learner for name, member in cluster.members.items()} == {
        "cp-1": False,
        "cp-2": False,
    }
    assert cluster.servers.keys() == {first.address, second.address}
    assert desk.site.hosts.inspect()["violations"] == []


async def test_a_token_lasts_as_long_as_it_was_made_for(desk: Desk) -> None:
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    await desk.invite(worker, first)
    await desk.clock.turn(1801)
    status, said = await desk.join(worker)
    assert status == 1
    assert "could not find a JWS signature in the cluster-info ConfigMap for token ID" in said


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"token": "aaaaaa." + "b" * 16}, "could not find a JWS signature"),
        ({"ca_hash": "sha256:" + "0" * 64}, "none of the public keys"),
        ({"certificate_key": "1" * 64}, "message authentication failed"),
    ],
)
async def test_a_stranger_does_not_join(
    desk: Desk, changed: dict[str, str], complaint: str
) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first, **changed)
    status, said = await desk.join(second)
    assert status == 1
    assert complaint in said
    assert desk.kind(second) is not Kind.CONTROL_PLANE


async def test_uploaded_certificates_expire(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    _, token = await desk.do(first, "kubeadm token create --ttl 0")
    await desk.invite(second, first, token=token.strip())
    await desk.clock.turn(7201)
    status, said = await desk.join(second)
    assert status == 1
    assert 'Secret "kubeadm-certs" was not found in the "kube-system" Namespace' in said


async def test_an_unhealthy_member_keeps_others_out(desk: Desk) -> None:
    first, second, third = await desk.found(), *[await desk.site.install(n) for n in ("b", "c")]
    for machine in (second, third):
        await desk.invite(machine, first)
        await desk.join(machine)
    late = await desk.site.install("d")
    await desk.invite(late, first)
    await desk.site.hosts.power_off(third.system_id)
    status, said = await desk.join(late)
    assert status == 1
    assert "error execution phase check-etcd: etcd cluster is not healthy" in said
    assert desk.site.clusters.alive(desk.cluster(first).uid)


async def test_a_ready_node_of_that_name_keeps_another_out(desk: Desk) -> None:
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    await desk.invite(worker, first)
    await desk.join(worker)
    double = await desk.site.install("other", Role.WORKER)
    double = double.model_copy(update={"slot": worker.slot})
    await desk.invite(double, first)
    status, said = await desk.join(double)
    assert status == 1
    assert 'a Node with name "w-1" and status "Ready" already exists' in said
    await desk.site.hosts.power_off(worker.system_id)
    await desk.do(double, "kubeadm reset -f")
    assert (await desk.join(double))[0] == 0


async def test_without_a_majority_nothing_answers(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first)
    await desk.join(second)
    worker = await desk.site.install("w-1", Role.WORKER)
    await desk.invite(worker, first)
    await desk.site.hosts.power_off(second.system_id)
    assert "connection refused" in (await desk.join(worker))[1]
    assert (await desk.do(first, "kubeadm token create"))[0] == 1
    await desk.site.hosts.power_on(second.system_id)
    await until(lambda: desk.site.clusters.alive(desk.cluster(first).uid))
    assert (await desk.do(first, "kubeadm token create"))[0] == 0


async def test_a_join_goes_where_the_name_leads() -> None:
    names: dict[str, list[str]] = {}
    clock = HandClock()
    async with metal(clock=clock, resolve=lambda name: names.get(name, [])) as site:
        desk = Desk(site, clock)
        first, worker = await desk.found(), await site.install("w-1", Role.WORKER)
        await desk.invite(worker, first)
        assert (
            "lookup hello.windlass.test on 127.0.0.53:53: no such host"
            in (await desk.join(worker))[1]
        )
        names[ENDPOINT] = [worker.address]
        assert "connect: connection refused" in (await desk.join(worker))[1]
        names[ENDPOINT] = [worker.address, first.address]
        assert (await desk.join(worker))[0] == 0


async def test_a_kubelet_may_be_newer_by_a_patch_and_no_more(desk: Desk) -> None:
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    other = await desk.site.install("w-2", Role.WORKER)
    await desk.do(other, "apt-get install -y --allow-change-held-packages kubelet=1.31.9-1.1")
    await desk.invite(other, first)
    assert (await desk.join(other))[0] == 0
    await desk.do(worker, "apt-get install -y --allow-change-held-packages kubelet=1.32.1-1.1")
    await desk.invite(worker, first)
    status, said = await desk.join(worker)
    assert status == 1
    assert "[ERROR KubeletVersion]" in said


async def test_reset_takes_the_member_out_and_says_so(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first)
    await desk.join(second)
    assert (await desk.do(second, "kubeadm reset -f"))[0] == 0
    assert desk.kind(second) is Kind.RESET
    assert list(desk.cluster(first).members) == ["cp-1"]
    disk = desk.site.host(second).disk
    for folder in ("/etc/kubernetes/manifests", "/etc/kubernetes/pki", "/var/lib/kubelet"):
        assert disk.listing(folder) == []
    assert not disk.exists("/etc/kubernetes/admin.conf")
    assert (await desk.do(second, "kubeadm reset -f"))[0] == 0
    uid = desk.cluster(first).uid
    assert desk.site.clusters.node(uid, "cp-2") is not None  # the Node is not its business
    assert not desk.site.clusters.node_ready(uid, "cp-2")


async def test_reset_succeeds_even_if_the_member_stays(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first)
    await desk.join(second)
    desk.site.faults.add(Fault(where="kubeadm id-cp-2 reset", how=How.FAIL))
    status, said = await desk.do(second, "kubeadm reset -f")
    assert status == 0
    assert "Failed to remove etcd member" in said
    assert list(desk.cluster(first).members) == ["cp-1", "cp-2"]
    assert len(desk.site.hosts.inspect()["violations"]) == 1


async def test_the_last_host_takes_the_cluster_with_it(desk: Desk) -> None:
    machine = await desk.found()
    await desk.do(machine, "kubeadm reset -f")
    assert desk.site.clusters.all() == []
    assert (await desk.do(machine, "kubeadm init"))[0] == 0


async def test_members_are_listed_and_removed_through_another(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first)
    await desk.join(second)
    _, container = await desk.do(first, "crictl ps -q --name etcd 2>/dev/null")
    etcdctl = f"ctr -n k8s.io tasks exec --exec-id it {container.strip()} etcdctl"
    listed = json.loads((await desk.do(first, f"{etcdctl} member list -w json"))[1])
    ids = {member["name"]: member["ID"] for member in listed["members"]}
    assert ids.keys() == {"cp-1", "cp-2"}
    assert (await desk.do(first, f"{etcdctl} member remove {ids['cp-2']:x}"))[0] == 0
    status, said = await desk.do(first, f"{etcdctl} member remove {ids['cp-2']:x}")
    assert (status, said) == (1, "Error: etcdserver: member not found\n")


async def test_etcd_keeps_its_majority(desk: Desk) -> None:
    first, *others = await desk.found(), *[await desk.site.install(n) for n in ("b", "c")]
    for machine in others:
        await desk.invite(machine, first)
        await desk.join(machine)
    await desk.site.hosts.power_off(others[0].system_id)
    member = desk.cluster(first).members["c"]
    status, said = await desk.do(first, f"etcdctl member remove {member.id:x}")
    assert status == 1
    assert "not enough started members" in said


@pytest.mark.parametrize("how", [How.FAIL, How.REFUSE])
async def test_a_run_can_be_made_to_fail(desk: Desk, how: How) -> None:
    machine = await desk.site.install("cp-1")
    desk.site.faults.add(Fault(where="kubeadm id-cp-1 init", how=how, message="no luck", status=7))
    status, said = await desk.do(machine, "kubeadm init")
    assert "no luck" in said
    if how is How.FAIL:
        assert "error execution phase wait-control-plane" in said
        assert (status, desk.kind(machine)) == (1, Kind.PARTIAL)
    else:
        assert (status, desk.kind(machine)) == (7, Kind.PREFLIGHT_FAILED)


async def test_a_host_can_restart_in_the_middle(desk: Desk) -> None:
    machine = await desk.site.install("cp-1")
    host = desk.site.host(machine)
    boot = host.state.boot_id
    desk.site.faults.add(Fault(where="kubeadm * init", how=How.REBOOT, line=10))
    await desk.do(machine, "systemd-run --unit=job kubeadm init")
    await until(lambda: host.state.boot_id != boot)
    assert desk.site.runs(machine) == [("init", "interrupted")]
    assert desk.kind(machine) is Kind.PARTIAL
    status, said = await desk.do(machine, "kubeadm init")
    assert status == 1
    assert "FileAvailable" in said
    assert (await desk.do(machine, "kubeadm reset -f && kubeadm init"))[0] == 0


async def test_two_at_once_are_noticed() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        host = site.host(machine)
        site.faults.add(Fault(where="kubeadm * init", how=How.HANG))
        await typed(host, "sudo systemd-run --unit=a kubeadm init")
        await until(lambda: bool(host.state.kubeadm.runs))
        await typed(host, "sudo kubeadm reset -f")
        assert site.hosts.inspect()["violations"] == [
            "id-cp-1: kubeadm reset while kubeadm init runs"
        ]


async def test_a_node_is_ready_a_while_after_the_network() -> None:
    clock = HandClock()
    pace = INSTANT.model_copy(update={"node_ready": 5.0})
    async with metal(clock=clock, pace=pace) as site:
        machine = await site.install("cp-1")
        await typed(site.host(machine), "sudo kubeadm init")
        (cluster,) = site.clusters.all()
        await clock.turn(60)
        assert not site.clusters.node_ready(cluster.uid, "cp-1")
        site.clusters.network_applied(cluster.uid)
        assert not site.clusters.node_ready(cluster.uid, "cp-1")
        await clock.turn(5)
        assert site.clusters.node_ready(cluster.uid, "cp-1")


class Served(ApiServers):
    def __init__(self) -> None:
        self.now: dict[str, str] = {}

    async def serve(self, cluster_uid: str, address: str) -> None:
        self.now[address] = cluster_uid

    async def stop(self, address: str) -> None:
        self.now.pop(address, None)


async def test_an_api_is_served_wherever_a_control_plane_runs() -> None:
    async with metal(pace=Pace(boot=0, cloud_init=0, initialise=0, join=0)) as site:
        served = Served()
        site.clusters.serve_with(served)
        machine = await site.install("cp-1")
        await typed(site.host(machine), "sudo kubeadm init")
        (cluster,) = site.clusters.all()
        assert served.now == {machine.address: cluster.uid}
        await site.hosts.power_off(machine.system_id)
        assert served.now == {}
        await site.hosts.power_on(machine.system_id)
        await until(lambda: served.now == {machine.address: cluster.uid})
        await site.hosts.wipe(machine.system_id)
        assert served.now == {}
