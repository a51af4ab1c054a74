"""Every trouble with a name, and how our clients live with it: wait, try again, or say what to do.

A test of a trouble begins with its name."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from clients.ceph import CephStorage
from clients.kubernetes import KubernetesApi
from clients.maas import MaasMachines
from clients.ssh.failures import DISK_FULL
from domain.errors import Failed, Unavailable
from domain.machine import Machine, Role, Search
from domain.storage_gates import restless
from domain.storage_plan import OsdMark, Target
from sim import troubles
from sim.faults import Faults
from sim.pace import HandClock
from sim.troubles import TROUBLES
from tests.clients.ceph.manager import Manager
from tests.clients.ceph.test_storage import manager, storage
from tests.clients.cluster import founding, insist, joining
from tests.clients.maas.pool import client, slot, taken
from tests.clients.test_kubernetes import api, node, site, vault
from tests.clients.test_kubernetes_pods import caller, run
from tests.clients.test_ssh import Crew, crew
from tests.metal import Metal, metal, until
from tests.sim.apiserver import Built
from tests.sim.region import Region, some

__all__ = ["api", "caller", "crew", "manager", "site", "storage", "vault"]


def test_every_trouble_is_lived_with() -> None:
    tests = [name for name in globals() if name.startswith("test_")]
    for name in TROUBLES:
        if name.startswith("crm-"):
            continue  # no client meets them: tests/agent/crm and tests/api/edge/test_running.py
        begins = f"test_{name.replace('-', '_')}_"
        assert [test for test in tests if test.startswith(begins)], name


def plan(faults: Faults, *names: str) -> None:
    for name in names:
        faults.add(troubles.fault(name))


def met(faults: Faults) -> int:
    """How often a fault has befallen anybody."""
    return sum(len(calls) for _, calls in faults.met())


@pytest.fixture
def region() -> Region:
    return Region(some(2, tags=("metal",)))


@pytest.fixture
async def machines(region: Region) -> AsyncIterator[MaasMachines]:
    async with region.serve(), client(region) as machines:
        yield machines


async def test_maas_busy_is_asked_again(region: Region, machines: MaasMachines) -> None:
    plan(region.faults, "maas-busy")
    await machines.allocate(Search(slot=slot()))
    assert (met(region.faults), len(taken(region))) == (1, 1)


async def test_maas_collides_is_asked_again(region: Region, machines: MaasMachines) -> None:
    plan(region.faults, "maas-collides,times=2")
    await machines.allocate(Search(slot=slot()))
    assert (met(region.faults), len(taken(region))) == (2, 1)


async def test_maas_full_is_taken_for_somebody_faster_and_the_next_machine_tried(
    region: Region, machines: MaasMachines
) -> None:
    plan(region.faults, "maas-full")
    await machines.allocate(Search(slot=slot()))
    assert (met(region.faults), len(taken(region))) == (1, 1)


async def test_maas_full_for_all_says_what_to_do(region: Region, machines: MaasMachines) -> None:
    plan(region.faults, "maas-full,times=2")
    with pytest.raises(Unavailable, match="MAAS has no free machine") as caught:
        await machines.allocate(Search(slot=slot()))
    assert (caught.value.reason, taken(region)) == ("NO_MACHINE_FREE", [])
    assert "add or release machines" in caught.value.do


async def test_maas_times_out_and_asking_again_takes_one_machine(
    region: Region, machines: MaasMachines
) -> None:
    plan(region.faults, "maas-times-out,nth=2,times=2")
    wanted = Search(slot=slot())
    assert await insist(lambda: machines.allocate(wanted)) > 1
    assert len(taken(region)) == 1


async def waited_for(clock: HandClock, site: Metal, machine: Machine, seconds: float) -> None:
    """See that the host is reached after so long, and not before."""
    crew = Crew(site)
    host = site.host(machine)
    await clock.turn(seconds - 1)
    assert not await crew.nodes.reach(machine)
    await clock.turn(1)
    await until(lambda: host.state.settled)
    assert await crew.nodes.reach(machine)
    await crew.nodes.close()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def slow(clock: HandClock) -> AsyncIterator[Metal]:
    async with metal(clock=clock) as site:
        yield site


async def test_sshd_late_is_waited_for(clock: HandClock, slow: Metal) -> None:
    plan(slow.faults, "sshd-late")
    machine = slow.machine("cp-1")
    await slow.boot(machine)
    await waited_for(clock, slow, machine, 60)


async def test_cloud_init_lasts_and_is_waited_for(clock: HandClock, slow: Metal) -> None:
    plan(slow.faults, "cloud-init-lasts")
    machine = slow.machine("cp-1")
    await slow.boot(machine)
    await waited_for(clock, slow, machine, 60)


async def test_cloud_init_fails_for_good(crew: Crew) -> None:
    plan(crew.site.faults, "cloud-init-fails")
    machine = await crew.site.install("cp-1")
    with pytest.raises(Failed, match=r"first boot of cp-1 .* went wrong: no package repository"):
        await crew.nodes.reach(machine)


async def test_dpkg_locked_is_waited_for_as_long_as_apt_was_told(
    clock: HandClock, slow: Metal
) -> None:
    plan(slow.faults, "dpkg-locked")
    machine = slow.machine("cp-1")
    await slow.boot(machine)
    await until(lambda: met(slow.faults) == 1)
    await waited_for(clock, slow, machine, 60)
    assert "kubeadm" in slow.host(machine).state.packages


async def test_dpkg_locked_for_longer_is_final(clock: HandClock, slow: Metal) -> None:
    crew = Crew(slow)
    plan(slow.faults, "dpkg-locked,seconds=3600")
    machine = slow.machine("cp-1")
    host = await slow.boot(machine)
    await until(lambda: met(slow.faults) == 1)
    await clock.turn(300)
    await until(lambda: host.state.settled)
    with pytest.raises(Failed, match="could not get dpkg's lock"):
        await crew.nodes.reach(machine)
    await crew.nodes.close()


async def test_disk_full_is_final_and_says_what_to_do(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    plan(crew.site.faults, "disk-full")
    with pytest.raises(Failed, match="No space left on device") as caught:
        await crew.nodes.initialise(founding(machine))
    assert caught.value.reason == DISK_FULL
    assert "make room on the host's disk" in caught.value.do


async def test_disk_full_in_the_middle_of_a_run_is_final_too(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    plan(crew.site.faults, "disk-full,where=disk * /etc/kubernetes/*")
    with pytest.raises(Failed, match="no space left on device") as caught:
        await crew.nodes.initialise(founding(machine))
    assert caught.value.reason == DISK_FULL
    crew.site.faults.clear()
    await crew.nodes.reset(machine)
    await crew.nodes.initialise(founding(machine))


async def test_slow_hosts_are_only_slow(crew: Crew) -> None:
    plan(crew.site.faults, "slow-hosts,seconds=0.01")
    await crew.first()
    assert met(crew.site.faults) > 5


async def test_tokens_expire_and_another_is_made(crew: Crew) -> None:
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    plan(crew.site.faults, "tokens-expire")
    with pytest.raises(Unavailable, match="JWS signature") as caught:
        await crew.nodes.join(joining(worker, first))
    assert caught.value.reason == "TOKEN_NOT_ACCEPTED"
    await crew.nodes.join(joining(worker, first))


async def test_certificates_expire_and_are_put_there_again(crew: Crew) -> None:
    first, second = await crew.first(), await crew.site.install("cp-2")
    plan(crew.site.faults, "certificates-expire")
    with pytest.raises(Unavailable, match="kubeadm-certs") as caught:
        await crew.nodes.join(joining(second, first))
    assert caught.value.reason == "CERTIFICATES_NOT_THERE"
    await crew.nodes.join(joining(second, first))
    assert crew.violations == []


async def test_join_reboots_and_is_begun_anew(crew: Crew) -> None:
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    plan(crew.site.faults, "join-reboots")
    assert await insist(lambda: crew.nodes.join(joining(worker, first)), tries=20) > 1
    assert crew.site.runs(worker)[-1] == ("join", "ok")


async def test_etcd_member_down_keeps_others_out_until_it_is_back(crew: Crew) -> None:
    first, *others = [await crew.first()] + [await crew.site.install(n) for n in ("b", "c", "d")]
    *early, late = others
    for machine in early:
        await crew.nodes.join(joining(machine, first))
    plan(crew.site.faults, "etcd-member-down,where=etcd hello c")
    with pytest.raises(Unavailable, match="phase check-etcd") as caught:
        await crew.nodes.join(joining(late, first))
    assert caught.value.reason == "ETCD_UNHEALTHY"
    crew.site.faults.clear()
    await crew.nodes.join(joining(late, first))


async def test_etcd_member_down_without_a_majority_is_an_api_that_is_not_ready(
    api: KubernetesApi, site: Built
) -> None:
    plan(site.faults, "etcd-member-down")
    assert not await api.ready(node(site))
    with pytest.raises(Unavailable, match="etcdserver: request timed out"):
        await api.label(node(site))
    site.faults.clear()
    assert await api.ready(node(site))


async def test_api_flaps_and_is_asked_until_it_answers(api: KubernetesApi, site: Built) -> None:
    plan(site.faults, "api-flaps")
    answers = [await api.ready(node(site)) for _ in range(6)]
    assert answers == [True, False, False] * 2
    assert await insist(lambda: api.cordon(node(site))) == 1
    assert await insist(lambda: api.uncordon(node(site))) == 3
    found = site.clusters.node(site.uid, "metal-1")
    assert found is not None
    assert not found.unschedulable


async def test_eviction_refused_is_told_and_asked_again(
    api: KubernetesApi, site: Built, caller: httpx2.AsyncClient
) -> None:
    await run(caller, "web-1")
    await api.cordon(node(site))
    plan(site.faults, "eviction-refused")
    assert "default/web-1 (held by a PodDisruptionBudget)" in await api.evict(node(site))
    site.faults.clear()
    assert "default/web-1 (asked to leave)" in await api.evict(node(site))


async def test_ceph_osd_dead_is_seen(storage: CephStorage, manager: Manager) -> None:
    plan(manager.faults, "ceph-osd-dead")
    assert [check.code for check in (await storage.observe()).checks] == ["OSD_DOWN"]


async def test_ceph_deaf_is_not_taken_for_live(storage: CephStorage, manager: Manager) -> None:
    plan(manager.faults, "ceph-deaf")
    assert not (await storage.observe()).live


async def test_ceph_manager_away_is_told_every_time(storage: CephStorage, manager: Manager) -> None:
    plan(manager.faults, "ceph-manager-away")
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            await storage.observe()
        assert caught.value.reason == "CEPH_DOWN"


async def test_ceph_moves_nothing_so_no_osd_is_safe(storage: CephStorage, manager: Manager) -> None:
    plan(manager.faults, "ceph-moves-nothing")
    await storage.mark_osd(OsdMark(id=1, inside=False))
    for _ in range(3):
        assert restless(await storage.observe())
        assert not await storage.safe_to_destroy(1)


async def test_ceph_upgrade_stalls_and_that_is_told(storage: CephStorage, manager: Manager) -> None:
    plan(manager.faults, "ceph-upgrade-stalls")
    target = Target(cluster="ceph", version="19.2.3")
    await storage.begin_upgrade(target)
    for _ in range(3):
        seen = await storage.renewal()
        assert (seen.running, seen.done, seen.is_over(target)) == (True, 0, False)


async def test_ceph_image_away_and_that_is_told(storage: CephStorage, manager: Manager) -> None:
    plan(manager.faults, "ceph-image-away")
    await storage.begin_upgrade(Target(cluster="ceph", version="19.2.3"))
    seen = await storage.observe()
    assert "UPGRADE_FAILED_PULL" in [check.code for check in seen.checks]
