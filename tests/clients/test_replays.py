"""The SSH client on hosts whose programs answer as real ones did."""

from collections.abc import AsyncIterator, Callable

import pytest

from clients.ssh.connections import Connections
from clients.ssh.etcd import Etcd
from clients.ssh.nodes import GUIDE_SECONDS
from clients.ssh.upgrades import changes
from domain.errors import Failed, Unavailable
from domain.machine import Machine
from domain.ports import ssh_key
from sim.hosts.hosts import COMMANDS
from sim.hosts.shell import Call
from tests.clients.cluster import Cluster, to
from tests.clients.test_ssh import Crew
from tests.domain.test_cloud_init import slot
from tests.metal import USER, metal
from tests.recordings import Recording, recordings

REST = "0" * 52
"""What the recordings cut of a container's id."""

ETCD = f"4d1784c270df{REST}"


@pytest.fixture
async def crew() -> AsyncIterator[Crew]:
    async with metal() as site:
        crew = Crew(site)
        yield crew
        await crew.nodes.close()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with metal() as site:
        cluster = Cluster(site)
        yield cluster
        await cluster.nodes.close()


async def played(call: Call, recording: Recording) -> int:
    """Say what the real program said, and end as it ended."""
    for stream, text in recording.said:
        text = text.replace("-REST-OF-64-HEX", REST)
        await (call.say(text) if stream == "out" else call.complain(text))
    return recording.exit


def replay(name: str) -> Callable[[Call], object]:
    async def run(call: Call) -> int:
        return await played(call, recordings()[name])

    return run


class Containers:
    """ctr as it was on a real control plane."""

    def __init__(self, execution: str) -> None:
        self.execution = execution
        self.filters: list[str] = []
        self.asked: list[list[str]] = []

    async def run(self, call: Call) -> int:
        match call.words[1:]:
            case [_, "k8s.io", "containers", "list", "--quiet", chosen]:
                self.filters.append(chosen)
                return await played(call, recordings()["ctr-containers-list-etcd"])
            case [_, "k8s.io", "tasks", "list"]:
                return await played(call, recordings()["ctr-tasks-list"])
            case [_, "k8s.io", "tasks", "exec", "--exec-id", own, identity, *words]:
                assert identity == ETCD
                self.asked.append([own, *words])
                return await played(call, recordings()[self.execution])
        raise AssertionError(call.words)


async def etcd(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, execution: str
) -> tuple[Etcd, Containers, Machine, Connections]:
    machine = await crew.site.install("metal-cp-1")
    crew.vault.secrets[ssh_key(crew.site.cluster_uid)] = crew.site.key.export_private_key()
    containers = Containers(execution)
    monkeypatch.setitem(COMMANDS, "ctr", containers.run)
    connections = Connections(crew.vault, port=crew.site.port, user=USER, connect_seconds=10)
    return Etcd(connections), containers, machine, connections


async def test_etcd_is_asked_in_its_container_without_crictl(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M1: crictl is a package that machines do not have."""
    asked, containers, machine, connections = await etcd(
        crew, monkeypatch, "ctr-tasks-exec-member-list"
    )
    monkeypatch.delitem(COMMANDS, "crictl")
    for _ in range(2):
        [member] = await asked.members(machine)
        assert (member.name, f"{member.id:x}") == ("metal-cp-1", "252902638f78db76")
    assert len({own for own, *_ in containers.asked}) == 2  # one at a time may bear a name
    assert 'labels."io.kubernetes.pod.namespace"==kube-system' in containers.filters[0]
    assert 'labels."io.kubernetes.pod.name"==etcd-metal-cp-1' in containers.filters[0]
    await connections.close()


async def test_a_member_that_is_gone_is_no_failure(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, _, machine, connections = await etcd(crew, monkeypatch, "ctr-tasks-exec-member-list")
    [member] = await asked.members(machine)
    monkeypatch.setitem(COMMANDS, "ctr", Containers("ctr-tasks-exec-failing").run)
    await asked.remove(machine, member)
    monkeypatch.setitem(COMMANDS, "ctr", Containers("etcd-no-quorum-member-remove").run)
    with pytest.raises(Unavailable, match="context deadline exceeded"):
        await asked.remove(machine, member)
    await connections.close()


async def test_a_host_whose_etcd_has_ended_says_so(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, containers, machine, connections = await etcd(
        crew, monkeypatch, "ctr-tasks-exec-member-list"
    )

    async def stopped(call: Call) -> int:
        """containerd lists it, and it does not run."""
        if call.words[3:5] == ["tasks", "list"]:
            line = f"{ETCD}    1208    STOPPED"
            await call.say(line)
            return 0
        return await containers.run(call)

    monkeypatch.setitem(COMMANDS, "ctr", stopped)
    with pytest.raises(Unavailable, match="no etcd runs on metal-cp-1") as caught:
        await asked.members(machine)
    assert caught.value.reason == "ETCD_UNHEALTHY"
    await connections.close()


@pytest.mark.parametrize(
    ("case", "coming"),
    [
        ("upgrade-plan-after-json", []),
        ("upgrade-plan-after-all-json", []),
        ("upgrade-plan-same-version", []),
        ("upgrade-plan-1.30.0", []),
        (
            "upgrade-plan-two-control-planes-json",
            [
                *("kubelet 1.32.1 -> 1.32.4", "kube-apiserver 1.32.1 -> 1.32.4"),
                *("kube-controller-manager 1.32.1 -> 1.32.4", "kube-scheduler 1.32.1 -> 1.32.4"),
                "kube-proxy 1.32.1 -> 1.32.4",
            ],
        ),
        (
            "upgrade-plan-json-one-node",
            [
                *("kubelet 1.32.1 -> 1.32.4", "kube-apiserver 1.32.1 -> 1.32.4"),
                *("kube-controller-manager 1.32.1 -> 1.32.4", "kube-scheduler 1.32.1 -> 1.32.4"),
                "kube-proxy 1.32.1 -> 1.32.4",
            ],
        ),
    ],
)
def test_a_plan_names_every_change_once(case: str, coming: list[str]) -> None:
    """M2 and M9: a plan may be empty, and has an entry for each node."""
    machine = Machine(slot=slot(), system_id="a", hostname="a", address="10.0.0.9")
    assert changes(machine, recordings()[case].out, "1.32.4") == coming


async def test_an_upgrade_goes_on_after_its_apply(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M2: once the cluster is at the version kubeadm plans nothing and writes nothing."""
    first = await cluster.found()
    lead = to("1.32.1", first, lead=True)
    await cluster.nodes.upgrade(lead)
    real = COMMANDS["kubeadm"]

    async def planless(call: Call) -> int:
        if call.words[1:3] == ["upgrade", "plan"]:
            return await played(call, recordings()["upgrade-plan-after-json"])
        return await real(call)

    monkeypatch.setitem(COMMANDS, "kubeadm", planless)
    said = await cluster.nodes.foresee(lead)
    assert said == "kubeadm 1.32.1 has nothing to upgrade: the cluster is configured for it"
    with pytest.raises(Failed, match="knows of no upgrade") as caught:
        await cluster.nodes.foresee(to("1.31.9", first, lead=True))
    assert caught.value.reason == "NO_UPGRADE"


async def booted(crew: Crew, monkeypatch: pytest.MonkeyPatch, case: str) -> Machine:
    machine = await crew.site.install("cp-1")
    monkeypatch.setitem(COMMANDS, "cloud-init", replay(case))
    return machine


@pytest.mark.parametrize(
    ("case", "over"),
    [("cloud-init-status-done", True), ("cloud-init-status-running", False)],
)
async def test_a_first_boot_is_read_as_cloud_init_tells_it(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, case: str, over: bool
) -> None:
    assert await crew.nodes.reach(await booted(crew, monkeypatch, case)) is over


@pytest.mark.parametrize(
    ("log", "reason", "advice"),
    [
        ("apt-version-missing", "PACKAGE_NOT_FOUND", "let the host find the packages"),
        ("apt-repository-refused", "PACKAGES_UNREACHABLE", "if it lasts, open the host's way"),
        ("crictl-ps-on-worker", "FIRST_BOOT", "read /var/log/cloud-init-output.log"),
    ],
)
async def test_a_first_boot_without_packages_says_what_is_missing(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, log: str, reason: str, advice: str
) -> None:
    """M8: what apt said is in the log of the first boot, and nowhere else."""
    machine = await booted(crew, monkeypatch, "cloud-init-status-package-missing")
    text = recordings()[log].output
    crew.site.host(machine).disk.write("/var/log/cloud-init-output.log", text.encode())
    with pytest.raises(Failed, match="the first boot of cp-1") as caught:
        await crew.nodes.reach(machine)
    assert caught.value.reason == reason
    assert caught.value.do.startswith(advice)


async def test_a_locale_that_failed_costs_no_machine(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M8: what a node does not need may fail."""
    machine = await crew.site.install("cp-1")
    trouble = "('locale', ProcessExecutionError('locale-gen: not found'))"

    async def status(call: Call) -> int:
        await call.say(f'{{"status": "error", "errors": ["{trouble}"]}}')
        return 1

    monkeypatch.setitem(COMMANDS, "cloud-init", status)
    assert await crew.nodes.reach(machine)
    await crew.nodes.preflight(machine)


def test_a_control_plane_has_time_to_say_why_it_cannot_invite() -> None:
    """M13: kubeadm tries for 60 s to upload certificates, and for 120 s to make a token."""
    cases = ("api-stopped-token-create", "api-stopped-upload-certs")
    assert max(recordings()[case].seconds for case in cases) < GUIDE_SECONDS - 30
