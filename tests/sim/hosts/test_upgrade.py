"""`kubeadm upgrade` on simulated hosts: what it changes, and everything it refuses."""

import io
import json
import tarfile
from collections.abc import AsyncIterator

import pytest
import yaml

from domain.machine import Machine, Role
from sim.faults import Fault, How
from sim.hosts import etcd
from sim.pace import HandClock
from tests.metal import metal, until
from tests.sim.hosts.test_kubeadm import Desk

OLD, NEW = "1.31.4", "1.32.1"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"


class Fleet(Desk):
    """An operator who upgrades."""

    async def join_as(self, name: str, first: Machine, role: Role) -> Machine:
        machine = await self.site.install(name, role)
        await self.invite(machine, first)
        status, said = await self.join(machine)
        assert status == 0, said
        return machine

    async def install(self, machine: Machine, *packages: str, version: str = NEW) -> None:
        wanted = " ".join(f"{package}={version}-*" for package in packages)
        line = f"apt-get install -y --allow-change-held-packages {wanted}"
        assert (await self.do(machine, line))[0] == 0

    def image(self, machine: Machine) -> str:
        """The API server's, in the host's manifest."""
        pod = yaml.safe_load(self.site.host(machine).disk.read(MANIFEST))
        return str(pod["spec"]["containers"][0]["image"])

    def versions(self, machine: Machine) -> tuple[str, str]:
        """The API server's and the kubelet's."""
        cluster = self.cluster(machine)
        node = self.site.clusters.node(cluster.uid, machine.slot.name)
        assert node is not None
        return cluster.apis.get(machine.address, ""), node.version

    @property
    def violations(self) -> list[str]:
        violations: list[str] = self.site.hosts.inspect()["violations"]
        return violations


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    clock = HandClock()
    async with metal(clock=clock) as site:
        yield Fleet(site, clock)


async def test_each_part_changes_its_own_and_nothing_else(fleet: Fleet) -> None:
    first = await fleet.found()
    second = await fleet.join_as("cp-2", first, Role.CONTROL_PLANE)
    worker = await fleet.join_as("w-1", first, Role.WORKER)
    for machine in (first, second, worker):
        await fleet.install(machine, "kubeadm")
    status, said = await fleet.do(first, f"kubeadm upgrade apply v{NEW} -y")
    assert status == 0
    assert f'was upgraded to "v{NEW}"' in said
    assert fleet.cluster(first).version == NEW
    assert fleet.image(first).endswith(f"kube-apiserver:v{NEW}")
    assert (fleet.versions(first), fleet.versions(second)) == ((NEW, OLD), (OLD, OLD))

    for machine in (second, worker):
        assert (await fleet.do(machine, "kubeadm upgrade node"))[0] == 0
    assert (fleet.versions(second), fleet.versions(worker)) == ((NEW, OLD), ("", OLD))

    await fleet.install(worker, "kubelet")
    assert fleet.versions(worker) == ("", OLD)  # what is installed does not run yet
    assert (await fleet.do(worker, "systemctl restart kubelet"))[0] == 0
    assert fleet.versions(worker) == ("", NEW)
    assert fleet.violations == []


async def test_a_plan_changes_nothing(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.install(first, "kubeadm")
    status, said = await fleet.do(first, f"kubeadm upgrade plan v{NEW} -o json")
    assert status == 0
    (upgrade,) = json.loads(said)["availableUpgrades"]
    changes = {each["name"]: each["newVersion"] for each in upgrade["components"]}
    assert changes["kube-apiserver"] == f"v{NEW}"
    assert changes["etcd"] == "3.5.16-0"
    assert fleet.versions(first) == (OLD, OLD)
    assert (await fleet.do(first, f"kubeadm upgrade plan v{OLD} -o json")) == (0, "")


@pytest.mark.parametrize(
    ("kubeadm", "target", "complaint"),
    [
        ("1.33.0", "1.33.0", "is too high; kubeadm can upgrade only 1 minor version at a time"),
        (OLD, NEW, "is at least one minor release higher than the kubeadm minor release"),
        ("1.32.1", "1.32.4", 'is higher than the kubeadm version "v1.32.1"'),
        ("1.32.1", "1.31.9", "Kubeadm version v1.32.1 can only be used to upgrade to"),
        ("1.29.0", "1.29.0", "is too low; kubeadm can downgrade only 1 minor version at a time"),
    ],
)
async def test_versions_that_do_not_go_together_are_refused(
    fleet: Fleet, kubeadm: str, target: str, complaint: str
) -> None:
    first = await fleet.found()
    await fleet.install(first, "kubeadm", version=kubeadm)
    status, said = await fleet.do(first, f"kubeadm upgrade apply v{target} -y")
    assert status == 1
    assert complaint in said
    assert fleet.versions(first) == (OLD, OLD)


async def test_kubelets_that_are_too_old_are_named(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.join_as("w-1", first, Role.WORKER)
    for version in ("1.32.1", "1.33.0", "1.34.1"):
        await fleet.install(first, "kubeadm", version=version)
        assert (await fleet.do(first, f"kubeadm upgrade apply v{version} -y"))[0] == 0
    await fleet.install(first, "kubeadm", version="1.35.0")
    status, said = await fleet.do(first, "kubeadm upgrade apply v1.35.0 -y")
    assert status == 1
    assert "too old that have these versions [v1.31.4]" in said


async def test_a_control_plane_that_is_not_ready_stops_it(fleet: Fleet) -> None:
    first = await fleet.found()
    for name in ("cp-2", "cp-3"):
        machine = await fleet.join_as(name, first, Role.CONTROL_PLANE)
    await fleet.site.hosts.power_off(machine.system_id)
    await fleet.install(first, "kubeadm")
    for line in (f"apply v{NEW} -y", f"plan v{NEW} -o json"):
        status, said = await fleet.do(first, f"kubeadm upgrade {line}")
        assert status == 1
        assert "there are NotReady control-planes in the cluster: [cp-3]" in said


async def test_an_etcd_member_that_is_ill_stops_it(fleet: Fleet) -> None:
    first = await fleet.found()
    for name in ("cp-2", "cp-3"):
        await fleet.join_as(name, first, Role.CONTROL_PLANE)
    uid = fleet.cluster(first).uid
    fleet.site.clusters.set_member_health(uid, "cp-3", healthy=False)
    await fleet.install(first, "kubeadm")
    status, said = await fleet.do(first, f"kubeadm upgrade apply v{NEW} -y")
    assert status == 1
    assert "etcd cluster is not healthy" in said
    assert fleet.image(first).endswith(OLD)


async def test_nothing_is_upgraded_without_a_word_for_it(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.install(first, "kubeadm")
    assert "didn't answer" in (await fleet.do(first, f"kubeadm upgrade apply v{NEW}"))[1]
    assert (await fleet.do(first, f"echo y | kubeadm upgrade apply v{NEW}"))[0] == 0
    assert "required arguments" in (await fleet.do(first, "kubeadm upgrade apply -y"))[1]


async def test_what_is_no_node_is_not_upgraded(fleet: Fleet) -> None:
    host = await fleet.site.install("w-1", Role.WORKER)
    assert "kubelet.conf: no such file" in (await fleet.do(host, "kubeadm upgrade node"))[1]
    assert "admin.conf" in (await fleet.do(host, f"kubeadm upgrade apply v{OLD} -y"))[1]


async def test_before_the_first_control_plane_the_others_stay_as_they_are(fleet: Fleet) -> None:
    """kubeadm does what the cluster's configuration says, and is content with it."""
    first = await fleet.found()
    second = await fleet.join_as("cp-2", first, Role.CONTROL_PLANE)
    await fleet.install(second, "kubeadm")
    assert (await fleet.do(second, "kubeadm upgrade node"))[0] == 0
    assert fleet.versions(second) == (OLD, OLD)


async def test_a_kubeadm_two_versions_ahead_upgrades_no_node(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.install(first, "kubeadm", version="1.33.0")
    status, said = await fleet.do(first, "kubeadm upgrade node")
    assert status == 1
    assert "only supports deploying clusters with the control plane version >= 1.32.0" in said


async def test_what_does_not_come_up_is_taken_back(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.install(first, "kubeadm")
    fault = Fault(where="kubeadm * upgrade apply", how=How.FAIL, message="timed out")
    fleet.site.faults.add(fault)
    status, said = await fleet.do(first, f"kubeadm upgrade apply v{NEW} -y")
    assert status == 1
    assert "tried to recover everything into the earlier state" in said
    assert fleet.image(first).endswith(OLD)
    assert fleet.cluster(first).version == OLD
    disk = fleet.site.host(first).disk
    etcd_kept, kept = disk.listing("/etc/kubernetes/tmp")
    assert etcd_kept.startswith("kubeadm-backup-etcd-20")
    assert kept.startswith("kubeadm-backup-manifests-20")
    assert "kube-apiserver.yaml" in disk.listing(f"/etc/kubernetes/tmp/{kept}")


async def test_a_restart_starts_the_kubelet_that_is_installed(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.install(first, "kubeadm")
    await fleet.do(first, f"kubeadm upgrade apply v{NEW} -y")
    await fleet.install(first, "kubelet")
    assert fleet.versions(first) == (NEW, OLD)
    await fleet.site.hosts.power_off(first.system_id)
    await fleet.site.hosts.power_on(first.system_id)
    await until(lambda: fleet.versions(first) == (NEW, NEW))


async def test_what_the_skew_policy_forbids_is_noticed(fleet: Fleet) -> None:
    first = await fleet.found()
    worker = await fleet.join_as("w-1", first, Role.WORKER)
    await fleet.install(worker, "kubelet")
    await fleet.do(worker, "systemctl restart kubelet")
    assert fleet.violations == ["hello.windlass.test: kubelet 1.32.1 on w-1, API 1.31.4"]


async def test_packages_that_are_held_stay(fleet: Fleet) -> None:
    first = await fleet.found()
    status, said = await fleet.do(first, f"apt-get install -y kubeadm={NEW}-*")
    assert status == 100
    assert "Held packages were changed" in said
    assert (await fleet.do(first, f"apt-get install -y kubeadm={OLD}-*"))[0] == 0
    line = f"apt-mark unhold kubeadm && apt-get install -y kubeadm={NEW}-*"
    assert (await fleet.do(first, line))[0] == 0


async def test_an_installation_cut_short_has_to_be_put_in_order(fleet: Fleet) -> None:
    first = await fleet.site.install("cp-1")
    host = fleet.site.host(first)
    fleet.site.faults.add(Fault(where="apt-get * install", how=How.REBOOT))
    boot = host.state.boot_id
    await fleet.do(first, "systemd-run --unit=job apt-get install -y jq")
    await until(lambda: host.state.boot_id != boot)
    assert "dpkg was interrupted" in (await fleet.do(first, "apt-get install -y jq"))[1]
    assert (await fleet.do(first, "dpkg --configure -a && apt-get install -y jq"))[0] == 0


async def test_a_snapshot_lands_where_etcd_and_the_host_both_look(fleet: Fleet) -> None:
    first = await fleet.found()
    _, container = await fleet.do(first, "crictl ps -q --name etcd 2>/dev/null")
    save = f"crictl exec {container.strip()} etcdctl snapshot save"
    assert "no such file" in (await fleet.do(first, f"{save} /root/x.db"))[1]
    assert (await fleet.do(first, f"{save} /var/lib/etcd/x.db"))[0] == 0
    disk = fleet.site.host(first).disk
    held = etcd.snapshot(fleet.site.clusters, fleet.cluster(first))
    assert disk.read("/var/lib/etcd/x.db") == held

    packing = "tar -cf /root/x.tar -C /var/lib/etcd x.db -C /etc/kubernetes pki"
    assert (await fleet.do(first, packing))[0] == 0
    with tarfile.open(fileobj=io.BytesIO(disk.read("/root/x.tar"))) as archive:
        assert {"x.db", "pki/ca.key", "pki/etcd/ca.crt"} <= set(archive.getnames())
        saved = archive.extractfile("x.db")
        assert saved is not None
        assert saved.read() == held
    assert (await fleet.do(first, "tar -xf /root/x.tar"))[0] == 2
    assert (await fleet.do(first, "tar -cf /root/y.tar nothing"))[0] == 1
