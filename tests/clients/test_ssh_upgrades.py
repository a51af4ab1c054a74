"""Nodes upgraded over SSH: done once, whatever comes between, and refused where kubeadm would."""

import asyncio

import pytest

from domain.errors import DomainError, Failed, Unavailable
from domain.machine import Role
from sim.faults import How
from sim.pace import HandClock, Pace
from tests.clients.cluster import Cluster, insist, to
from tests.metal import VERSION, metal, typed, until

NEXT = "1.32.1"
HELD = ["kubeadm", "kubectl", "kubelet"]
APPLY_LINES = 13
"""So many lines are written by an upgrade of the first control plane."""


async def test_a_whole_cluster_takes_on_another_release(cluster: Cluster) -> None:
    first = await cluster.found()
    second = await cluster.join("cp-2", first, Role.CONTROL_PLANE)
    worker = await cluster.join("w-1", first)
    lead = to(NEXT, first, lead=True)
    said = await cluster.nodes.foresee(lead)
    assert said.startswith(f"kubeadm {NEXT} would upgrade kubelet {VERSION} -> {NEXT}, ")
    assert said.count(f"kube-apiserver {VERSION} -> {NEXT}") == 1  # on two nodes
    assert "etcd 3.5.15-0 -> 3.5.16-0" in said
    assert (cluster.api(first), cluster.kubelet(first)) == (VERSION, VERSION)

    for upgrading in (lead, to(NEXT, second, first), to(NEXT, worker, first)):
        await cluster.nodes.upgrade(upgrading)
        assert cluster.kubelet(upgrading.machine) == VERSION
        await cluster.nodes.renew_kubelet(upgrading)
        assert cluster.kubelet(upgrading.machine) == NEXT
        assert cluster.violations == []
    assert {cluster.api(first), cluster.api(second)} == {NEXT}
    for machine in (first, second, worker):
        host = cluster.site.host(machine)
        assert sorted(host.state.held) == HELD
        assert {host.state.packages[name] for name in host.state.held} == {f"{NEXT}-1.1"}
    assert cluster.upgrades(first) == [("upgrade apply", "ok")]
    assert cluster.upgrades(second) == cluster.upgrades(worker) == [("upgrade node", "ok")]
    assert cluster.violations == []


async def test_one_release_after_the_other(cluster: Cluster) -> None:
    first = await cluster.found()
    for version in (NEXT, "1.32.4", "1.33.0"):
        await cluster.nodes.upgrade(to(version, first, lead=True))
        await cluster.nodes.renew_kubelet(to(version, first, lead=True))
        assert (cluster.api(first), cluster.kubelet(first)) == (version, version)
    assert cluster.violations == []


async def test_what_is_done_is_not_done_again(cluster: Cluster) -> None:
    first = await cluster.found()
    lead = to(NEXT, first, lead=True)
    for nodes in (cluster.nodes, cluster.worker()):
        await nodes.upgrade(lead)
        await nodes.renew_kubelet(lead)
        await nodes.foresee(lead)
    assert cluster.upgrades(first) == [("upgrade apply", "ok")]
    said = await cluster.nodes.foresee(lead)
    assert said == f"kubeadm {NEXT} has nothing to upgrade: the cluster is configured for it"


async def test_what_somebody_has_undone_is_done_again(cluster: Cluster) -> None:
    first = await cluster.found()
    lead = to(NEXT, first, lead=True)
    await cluster.nodes.upgrade(lead)
    await cluster.nodes.renew_kubelet(lead)
    host = cluster.site.host(first)
    path = "/etc/kubernetes/manifests/kube-scheduler.yaml"
    old = host.disk.read(path).replace(NEXT.encode(), VERSION.encode())
    host.disk.write(path, old)
    again = f"apt-get install -y --allow-change-held-packages kubelet={VERSION}-*"
    await typed(host, again, user="root")
    await cluster.nodes.upgrade(lead)
    await cluster.nodes.renew_kubelet(lead)
    assert NEXT.encode() in host.disk.read(path)
    assert host.state.packages["kubelet"] == f"{NEXT}-1.1"


@pytest.mark.parametrize("line", range(APPLY_LINES + 1))
async def test_a_line_that_drops_costs_nothing(cluster: Cluster, line: int) -> None:
    first = await cluster.found()
    cluster.fault("kubeadm * upgrade apply", How.DROP, line=line)
    await insist(lambda: cluster.nodes.upgrade(to(NEXT, first, lead=True)))
    assert cluster.upgrades(first) == [("upgrade apply", "ok")]
    assert cluster.api(first) == NEXT


@pytest.mark.parametrize("how", [How.DROP, How.HALF])
async def test_any_command_may_get_lost(cluster: Cluster, how: How) -> None:
    """Each command of an upgrade in turn, before its work and after it."""
    first = await cluster.found()
    versions = [f"1.31.{patch}" for patch in range(5, 60)]
    for number, version in enumerate(versions, start=1):
        lead = to(version, first, lead=True)
        cluster.fault("ssh exec *", how, nth=number)
        await insist(lambda lead=lead: cluster.nodes.upgrade(lead))  # type: ignore[misc]
        await insist(lambda lead=lead: cluster.nodes.renew_kubelet(lead))  # type: ignore[misc]
        assert (cluster.api(first), cluster.kubelet(first)) == (version, version)
        assert cluster.upgrades(first) == [("upgrade apply", "ok")] * number
        ((_, calls),) = cluster.site.faults.met()
        cluster.site.faults.clear()
        if not calls:
            break
    assert number > 20
    assert cluster.violations == []


@pytest.mark.parametrize("line", [0, 3, 6, 9, APPLY_LINES - 1])
async def test_a_restart_in_the_middle_is_made_good(cluster: Cluster, line: int) -> None:
    first = await cluster.found()
    cluster.fault("kubeadm * upgrade apply", How.REBOOT, line=line)
    await insist(lambda: cluster.nodes.upgrade(to(NEXT, first, lead=True)), tries=20)
    assert cluster.upgrades(first) == [("upgrade apply", "interrupted"), ("upgrade apply", "ok")]
    assert cluster.api(first) == NEXT
    (shown,) = cluster.site.clusters.all()
    assert shown.version == NEXT


async def test_packages_interrupted_by_a_restart_are_put_in_order(cluster: Cluster) -> None:
    first = await cluster.found()
    cluster.fault("apt-get * install", How.REBOOT)
    await insist(lambda: cluster.nodes.upgrade(to(NEXT, first, lead=True)), tries=20)
    cluster.fault("apt-get * install", How.REBOOT)
    await insist(lambda: cluster.nodes.renew_kubelet(to(NEXT, first, lead=True)), tries=20)
    host = cluster.site.host(first)
    assert (cluster.api(first), cluster.kubelet(first)) == (NEXT, NEXT)
    assert not host.state.half_installed
    assert sorted(host.state.held) == HELD


async def test_a_worker_that_died_is_followed_by_another() -> None:
    """The run goes on without it, and whoever asks next waits for that very run."""
    async with metal(
        pace=Pace(boot=0, cloud_init=0, initialise=0, node_ready=0, upgrade=1)
    ) as site:
        cluster = Cluster(site)
        first = await cluster.found()
        lead = to(NEXT, first, lead=True)
        asking = asyncio.create_task(cluster.nodes.upgrade(lead))
        await until(lambda: bool(cluster.upgrades(first)))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await cluster.nodes.close()
        other = cluster.worker()
        await other.upgrade(lead)
        assert cluster.upgrades(first) == [("upgrade apply", "ok")]
        await other.close()


async def test_what_runs_of_an_upgrade_is_seen_through_and_nothing_of_it_is_begun(
    cluster: Cluster,
) -> None:
    first = await cluster.found()
    lead = to(NEXT, first, lead=True)
    assert not await cluster.nodes.see_through(lead)
    assert (cluster.api(first), cluster.upgrades(first)) == (VERSION, [])
    await cluster.nodes.upgrade(lead)
    assert not await cluster.nodes.see_through(lead)
    assert cluster.kubelet(first) == VERSION
    await cluster.nodes.renew_kubelet(lead)
    assert await cluster.nodes.see_through(lead)
    assert not await cluster.nodes.see_through(to("1.32.4", first, lead=True))
    assert cluster.upgrades(first) == [("upgrade apply", "ok")]
    assert cluster.kubelet(first) == NEXT


async def test_a_run_that_is_under_way_is_waited_for() -> None:
    async with metal(
        pace=Pace(boot=0, cloud_init=0, initialise=0, node_ready=0, upgrade=1)
    ) as site:
        cluster = Cluster(site)
        first = await cluster.found()
        lead = to(NEXT, first, lead=True)
        asking = asyncio.create_task(cluster.nodes.upgrade(lead))
        await until(lambda: bool(cluster.upgrades(first)))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert not await cluster.nodes.see_through(lead)
        assert cluster.upgrades(first) == [("upgrade apply", "ok")]
        assert cluster.kubelet(first) == VERSION
        await cluster.nodes.close()


async def test_what_failed_or_was_interrupted_is_left_at_that(cluster: Cluster) -> None:
    first = await cluster.found()
    lead = to(NEXT, first, lead=True)
    cluster.fault("kubeadm * upgrade apply", How.FAIL, message="timed out")
    await refused(cluster.nodes.upgrade(lead))
    assert not await cluster.nodes.see_through(lead)
    cluster.fault("kubeadm * upgrade apply", How.REBOOT, line=3)
    with pytest.raises(Unavailable):
        await cluster.nodes.upgrade(lead)
    await insist(lambda: cluster.nodes.see_through(lead), tries=20)
    assert len(cluster.upgrades(first)) == 2
    await cluster.nodes.upgrade(lead)
    assert cluster.upgrades(first)[2:] == [("upgrade apply", "ok")]


async def test_an_order_that_comes_late_begins_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path, clock = tmp_path_factory.mktemp("site") / "ledger.jsonl", HandClock()
    async with metal(clock=clock, path=path) as site:
        cluster = Cluster(site)
        first = await cluster.found()
        lead, slow = to(NEXT, first, lead=True), site.faults
        cluster.fault("ssh exec * systemd-run --unit=windlass-upgrade.service", How.SLOW)
        asking = asyncio.create_task(cluster.nodes.upgrade(lead))
        await until(lambda: any(calls for _, calls in slow.met()))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert not await cluster.nodes.see_through(lead)
        assert "windlass-upgrade" not in path.read_text()
        await clock.turn(1)
        await until(lambda: "windlass-upgrade" in path.read_text())
        await until(lambda: not site.host(first).state.units)
        assert cluster.upgrades(first) == []
        await cluster.nodes.upgrade(lead)
        assert cluster.upgrades(first) == [("upgrade apply", "ok")]
        await cluster.nodes.close()


async def test_a_site_that_is_killed_goes_on_where_it_was(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("site") / "ledger.jsonl"
    pace = Pace(boot=0, cloud_init=0, initialise=0, node_ready=0, upgrade=0.6)
    async with metal(pace=pace, path=path) as site:
        cluster = Cluster(site)
        first = await cluster.found()
        lead = to(NEXT, first, lead=True)
        asking = asyncio.create_task(cluster.nodes.upgrade(lead))
        await until(lambda: bool(cluster.upgrades(first)))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await cluster.nodes.close()
        vault = cluster.vault
    async with metal(pace=pace, path=path, like=site) as same:
        cluster.site = same
        cluster.vault = vault
        cluster.nodes = cluster.worker()
        await insist(lambda: cluster.nodes.upgrade(lead), tries=20)
        assert cluster.upgrades(first) == [("upgrade apply", "ok")]
        assert cluster.api(first) == NEXT
        await cluster.nodes.close()


async def refused(work: object) -> DomainError:
    with pytest.raises(Failed) as caught:
        await work  # type: ignore[misc]
    return caught.value


async def test_a_control_plane_that_does_not_come_up_is_rolled_back(cluster: Cluster) -> None:
    first = await cluster.found()
    lead = to(NEXT, first, lead=True)
    cluster.fault("kubeadm * upgrade apply", How.FAIL, message="timed out")
    error = await refused(cluster.nodes.upgrade(lead))
    assert error.reason == "ROLLED_BACK"
    assert "ask for the same upgrade again" in error.do
    assert error.facts["phase"] == "control-plane"
    assert cluster.api(first) == VERSION
    await cluster.nodes.upgrade(lead)
    assert [verb for verb, _ in cluster.upgrades(first)] == ["upgrade apply"] * 2
    assert cluster.api(first) == NEXT


async def test_a_minor_version_cannot_be_skipped(cluster: Cluster) -> None:
    first = await cluster.found()
    error = await refused(cluster.nodes.upgrade(to("1.33.0", first, lead=True)))
    assert error.reason == "VERSION_REFUSED"
    assert "is too high; kubeadm can upgrade only 1 minor version at a time" in error.message


async def test_a_lost_control_plane_stops_it(cluster: Cluster) -> None:
    first = await cluster.found()
    second = await cluster.join("cp-2", first, Role.CONTROL_PLANE)
    third = await cluster.join("cp-3", first, Role.CONTROL_PLANE)
    await cluster.site.hosts.power_off(third.system_id)
    for work in (cluster.nodes.foresee, cluster.nodes.upgrade):
        error = await refused(work(to(NEXT, first, lead=True)))
        assert error.reason == "CONTROL_PLANE_NOT_READY"
        assert "[cp-3]" in error.message
    assert cluster.upgrades(second) == []


async def test_an_etcd_that_is_not_healthy_stops_it(cluster: Cluster) -> None:
    first = await cluster.found()
    for name in ("cp-2", "cp-3"):
        await cluster.join(name, first, Role.CONTROL_PLANE)
    cluster.site.clusters.set_member_health(cluster.uid, "cp-3", healthy=False)
    error = await refused(cluster.nodes.upgrade(to(NEXT, first, lead=True)))
    assert error.reason == "ETCD_UNHEALTHY"
    assert cluster.api(first) == VERSION


async def test_the_first_control_plane_comes_first(cluster: Cluster) -> None:
    first = await cluster.found()
    second = await cluster.join("cp-2", first, Role.CONTROL_PLANE)
    error = await refused(cluster.nodes.upgrade(to(NEXT, second, first)))
    assert error.reason == "LEAD_FIRST"
    await cluster.nodes.upgrade(to(NEXT, first, lead=True))
    await cluster.nodes.upgrade(to(NEXT, second, first))
    assert cluster.api(second) == NEXT


async def test_no_kubelet_is_newer_than_its_api(cluster: Cluster) -> None:
    first = await cluster.found()
    worker = await cluster.join("w-1", first)
    for machine in (first, worker):
        error = await refused(cluster.nodes.renew_kubelet(to(NEXT, machine, first)))
        assert error.reason == "KUBELET_TOO_NEW"
    assert cluster.site.host(worker).state.packages["kubelet"] == f"{VERSION}-1.1"


async def test_an_api_that_is_away_is_waited_for(cluster: Cluster) -> None:
    first = await cluster.found()
    worker = await cluster.join("w-1", first)
    await cluster.nodes.upgrade(to(NEXT, first, lead=True))
    cluster.site.clusters.set_member_health(cluster.uid, "cp-1", healthy=False)
    with pytest.raises(Unavailable) as caught:
        await cluster.nodes.upgrade(to(NEXT, worker, first))
    assert caught.value.reason == "API_UNREACHABLE"
    cluster.site.clusters.set_member_health(cluster.uid, "cp-1", healthy=True)
    await cluster.nodes.upgrade(to(NEXT, worker, first))
    assert cluster.upgrades(worker)[-1] == ("upgrade node", "ok")


@pytest.mark.parametrize(
    ("said", "reason", "passes"),
    [
        ("E: Version '1.32.1-*' for 'kubeadm' was not found", "PACKAGE_NOT_FOUND", False),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend.", "PACKAGES_LOCKED", True),
        ("E: Failed to fetch http://mirror  Temporary failure", "PACKAGES_UNREACHABLE", True),
        ("E: You don't have enough free space: not enough free space", "DISK_FULL", False),
    ],
)
async def test_packages_that_cannot_be_had_are_named(
    cluster: Cluster, said: str, reason: str, passes: bool
) -> None:
    first = await cluster.found()
    cluster.fault("apt-get * install", How.REFUSE, status=100, message=said)
    with pytest.raises(Unavailable if passes else Failed) as caught:
        await cluster.nodes.upgrade(to(NEXT, first, lead=True))
    assert isinstance(caught.value, DomainError)
    assert caught.value.reason == reason
    assert caught.value.message.endswith(f"ended with 100: {said}")
    assert sorted(cluster.site.host(first).state.held) == HELD
    await cluster.nodes.upgrade(to(NEXT, first, lead=True))
    assert cluster.api(first) == NEXT


async def test_a_host_that_is_reset_has_forgotten_its_upgrades(cluster: Cluster) -> None:
    first = await cluster.found()
    await cluster.nodes.upgrade(to(NEXT, first, lead=True))
    await cluster.nodes.reset(first)
    left = cluster.site.host(first).disk.listing("/var/lib/windlass/steps")
    assert left == ["reset"]
