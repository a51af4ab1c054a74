"""Simulated hosts held against what real ones said and left behind."""

import json
import re
from collections.abc import AsyncIterator

import pytest

from domain.machine import Machine, Role
from sim.hosts.host import Kind
from sim.pace import HandClock
from tests.metal import metal
from tests.recordings import Recording, recordings
from tests.sim.hosts.test_kubeadm import Desk
from tests.sim.hosts.test_upgrade import Fleet

REAL = recordings()
LAB = re.compile(
    r"^(?:\s*\[WARNING |W\d{4} |E\d{4} |\{|To see the stack trace).*\n?",
    re.MULTILINE,
)
"""Lines that are the lab's, or advice."""


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    clock = HandClock()
    async with metal(clock=clock) as site:
        yield Desk(site, clock)


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    clock = HandClock()
    async with metal(clock=clock) as site:
        yield Fleet(site, clock)


def said(recording: Recording) -> list[str]:
    """What a real program complained of, without addresses and names."""
    return plain(LAB.sub("", recording.err))


def plain(text: str) -> list[str]:
    text = re.sub(r'"?(?:[\w-]+\.)*windlass\.test:6443', "API", LAB.sub("", text))
    text = re.sub(r"\d+\.\d+\.\d+\.\d+(:\d+)?", "ADDRESS", text)
    text = re.sub(r'token ID "[^"]*"|bootstrap-token-\S+', "TOKEN", text)
    text = re.sub(r'"sha256:[^"]*"', "HASH", text)
    text = re.sub(r"\b(?:metal|other)-(?:cp|w)-\d\b|\b(?:cp|w)-\d\b", "NODE", text)
    return [line.strip() for line in text.splitlines() if line.strip()]


async def complaints(desk: Desk, machine: Machine, command: str) -> tuple[int, list[str]]:
    status, words = await desk.do(machine, f"{command} 2>&1 >/dev/null")
    return status, plain(words)


def made(desk: Desk, machine: Machine) -> set[str]:
    """What lies where kubeadm writes."""
    roots = ("/etc/kubernetes/", "/var/lib/etcd/")
    return {path for path in desk.site.host(machine).disk.paths() if path.startswith(roots)}


def left(recording: Recording) -> set[str]:
    roots = ("/etc/kubernetes/", "/var/lib/etcd/")
    within = "/var/lib/etcd/member/"
    return {
        path
        for path in recording.made
        if path.startswith(roots) and not path.startswith(within) and ".kubelet-keep" not in path
    }


async def test_init_leaves_what_kubeadm_leaves(desk: Desk) -> None:
    machine = await desk.found()
    found = made(desk, machine)
    assert found - {"/etc/kubernetes/manifests"} == left(REAL["init"])
    disk = desk.site.host(machine).disk
    modes = {line.split()[-1]: line.split()[1] for line in REAL["init"].files or ()}
    for path in found - {"/etc/kubernetes/manifests"}:
        if not disk.stat(path).directory:
            private = modes[path] == "-rw-------"
            assert (disk.stat(path).mode & 0o077 == 0) == private, path


async def test_a_join_leaves_what_kubeadm_leaves(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    worker = await desk.site.install("w-1", Role.WORKER)
    for machine, case in ((second, "join-control-plane"), (worker, "join-worker")):
        await desk.invite(machine, first)
        assert (await desk.join(machine))[0] == 0
        here = {"/etc/kubernetes/manifests", "/etc/kubernetes/pki"}  # or from before
        assert made(desk, machine) - here == left(REAL[case]) - here


async def test_a_name_in_use_leaves_half_a_control_plane(desk: Desk) -> None:
    first = await desk.found()
    desk.site.clusters.network_applied(desk.cluster(first).uid)
    for role, case in (
        (Role.CONTROL_PLANE, "join-control-plane-name-in-use"),
        (Role.WORKER, "join-worker-name-in-use"),
    ):
        double = await desk.site.install(f"other-{role.value}", role)
        slot = double.slot.model_copy(update={"name": first.slot.name})
        double = double.model_copy(update={"slot": slot})
        await desk.invite(double, first)
        status, words = await complaints(desk, double, "kubeadm join --config /c")
        assert (status, words) == (REAL[case].exit, said(REAL[case]))
        here = {"/etc/kubernetes/manifests", "/etc/kubernetes/pki"}
        assert made(desk, double) - here == left(REAL[case]) - here


async def test_the_same_host_waits_for_its_node_to_be_given_up(desk: Desk) -> None:
    """Only the Node's being Ready counts, and not whose it is."""
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    desk.site.clusters.network_applied(desk.cluster(first).uid)
    await desk.invite(worker, first)
    assert (await desk.join(worker))[0] == 0
    disk = desk.site.host(worker).disk
    for path in ("/etc/kubernetes", "/var/lib/kubelet"):
        disk.remove_tree(path)
    desk.site.host(worker).state.kubeadm.kind = Kind.NONE
    await desk.clock.turn(60)
    status, words = await complaints(desk, worker, "kubeadm join --config /c")
    case = REAL["join-worker-own-name-still-ready"]
    assert (status, words) == (case.exit, said(case))


async def test_a_node_is_not_joined_again(desk: Desk) -> None:
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    await desk.invite(worker, first)
    await desk.join(worker)
    case = REAL["join-worker-again"]
    assert await complaints(desk, worker, "kubeadm join --config /c") == (case.exit, said(case))


async def test_strangers_are_told_apart(desk: Desk) -> None:
    first, worker = await desk.found(), await desk.site.install("w-1", Role.WORKER)
    _, token = await desk.do(first, "kubeadm token create")
    known = token.strip().partition(".")[0]
    for changed, name in (
        ({"token": "aaaaaa." + "b" * 16}, "join-worker-token-unknown"),
        ({"token": f"{known}." + "b" * 16}, "join-worker-token-secret-wrong"),
        ({"ca_hash": "sha256:" + "0" * 64}, "join-worker-ca-hash-wrong"),
    ):
        await desk.invite(worker, first, **changed)
        case = REAL[name]
        assert await complaints(desk, worker, "kubeadm join --config /c") == (
            case.exit,
            said(case),
        )


async def test_a_host_without_its_runtime_says_so_without_a_name(desk: Desk) -> None:
    machine = await desk.site.install("cp-1")
    del desk.site.host(machine).state.packages["containerd"]
    status, words = await complaints(desk, machine, "kubeadm init phase preflight")
    case = REAL["preflight-containerd-stopped"]
    assert status == case.exit
    assert words == said(case)


async def test_without_a_majority_commands_say_what_kubeadm_says(desk: Desk) -> None:
    first, second = await desk.found(), await desk.site.install("cp-2")
    await desk.invite(second, first)
    await desk.join(second)
    await desk.site.hosts.power_off(second.system_id)
    for command, name in (
        ("kubeadm token create --ttl 30m", "etcd-no-quorum-token-create"),
        ("kubeadm upgrade plan v1.31.4 -o json", "etcd-no-quorum-upgrade-plan"),
    ):
        status, words = await complaints(desk, first, command)
        assert words == said(REAL[name])
        if REAL[name].exit > 0:  # the other was ended by hand
            assert status == REAL[name].exit


async def test_commands_without_their_api_say_what_kubeadm_says(desk: Desk) -> None:
    first = await desk.found()
    desk.site.clusters.set_member_health(desk.cluster(first).uid, "cp-1", healthy=False)
    for command, name in (
        ("kubeadm token create --ttl 30m", "api-stopped-token-create"),
        ("kubeadm init phase upload-certs --upload-certs", "api-stopped-upload-certs"),
        ("kubeadm upgrade plan v1.31.4 -o json", "api-stopped-upgrade-plan-json"),
        ("kubeadm upgrade apply v1.31.4 --yes", "api-stopped-upgrade-apply"),
        ("kubeadm upgrade node", "api-stopped-upgrade-node"),
    ):
        case = REAL[name]
        assert await complaints(desk, first, command) == (case.exit, said(case)), name


async def test_what_is_no_node_says_what_kubeadm_says(desk: Desk) -> None:
    host = await desk.site.install("w-1", Role.WORKER)
    for command, name in (
        ("kubeadm upgrade plan v1.31.4 -o json", "upgrade-plan-on-nothing"),
        ("kubeadm upgrade node", "upgrade-node-on-nothing"),
        ("kubeadm token create", "token-create-on-nothing"),
        ("kubeadm certs renew admin.conf", "certs-renew-on-nothing"),
        ("kubeadm reset --force", "reset-nothing-there"),
    ):
        case = REAL[name]
        assert await complaints(desk, host, command) == (case.exit, said(case)), name


async def test_a_plan_has_the_shape_of_kubeadms(fleet: Fleet) -> None:
    first = await fleet.found()
    await fleet.join_as("cp-2", first, Role.CONTROL_PLANE)
    await fleet.join_as("w-1", first, Role.WORKER)
    await fleet.install(first, "kubeadm", version="1.31.9")
    _, text = await fleet.do(first, "kubeadm upgrade plan v1.31.9 -o json")
    ours, real = json.loads(text), json.loads(REAL["upgrade-plan-two-control-planes-json"].out)
    assert ours.keys() == real.keys()
    assert ours["configVersions"] == real["configVersions"]
    [mine], [theirs] = ours["availableUpgrades"], real["availableUpgrades"]
    assert [(each["name"], "nodeName" in each) for each in mine["components"]] == [
        (each["name"], "nodeName" in each) for each in theirs["components"]
    ]
    for each in mine["components"]:
        if each["name"] == "kube-proxy":
            assert (each["currentVersion"], each["newVersion"]) == ("1.31.4", "v1.31.9")


async def test_versions_that_were_never_published_are_not_found(desk: Desk) -> None:
    host = await desk.site.install("w-1", Role.WORKER)
    line = "apt-get install -y --allow-change-held-packages kubeadm=1.32.99-*"
    status, words = await desk.do(host, line)
    assert status == REAL["apt-version-missing"].exit
    assert words == "E: Version '1.32.99-*' for 'kubeadm' was not found\n"
