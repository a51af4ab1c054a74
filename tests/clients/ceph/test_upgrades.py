"""Upgrades of a simulated Ceph through its manager, and of managers that have no words for them."""

from collections.abc import AsyncIterator

import pytest

from clients.ceph import CephStorage, RestUpgrades
from domain.errors import Conflict, Unavailable, Unsupported
from domain.storage_gates import alarming, refuse_upgrade, unsound
from domain.storage_plan import Target
from sim.ceph.cluster import DAEMONS
from sim.faults import Fault, How
from tests.clients.ceph.manager import Manager, Reply, Scripted

TARGET = Target(cluster="ceph", version="19.2.3")
START = "ceph POST cluster/upgrade/start"


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    async with Manager().serve() as manager:
        yield manager


@pytest.fixture
async def storage(manager: Manager) -> AsyncIterator[CephStorage]:
    async with manager.storage() as storage:
        yield storage


async def test_it_is_begun_once_and_goes_on_until_every_daemon_runs_it(
    storage: CephStorage, manager: Manager
) -> None:
    assert not (await storage.renewal()).running
    for _ in range(2):
        await storage.begin_upgrade(TARGET)
    assert manager.heard(START) == 1
    seen = await storage.renewal()
    assert (seen.running, seen.total) == (True, len(DAEMONS))
    assert seen.versions == ("18.2.7", "19.2.3"), "the manager goes first"
    assert seen.said(TARGET) == f"{seen.done} of {len(DAEMONS)} daemons run 19.2.3"
    assert "still run 18.2.7" in unsound(await storage.observe(), TARGET)
    while not seen.is_over(TARGET):
        later = await storage.renewal()
        assert seen.done < later.done or later.is_over(TARGET)
        seen = later
    assert seen.is_whole(TARGET)
    after = await storage.observe()
    assert (after.version, after.versions, after.release) == ("19.2.3", ("19.2.3",), "squid")
    await storage.begin_upgrade(TARGET)
    assert manager.heard(START) == 1


async def test_one_that_was_stopped_is_not_over_and_is_gone_on_with(
    storage: CephStorage, manager: Manager
) -> None:
    await storage.begin_upgrade(TARGET)
    await storage.renewal()
    manager.cluster.stop_renewing()
    seen = await storage.renewal()
    assert (seen.is_over(TARGET), seen.is_whole(TARGET)) == (True, False)
    refuse_upgrade(await storage.observe(), TARGET)
    other = TARGET.model_copy(update={"version": "19.2.4"})
    with pytest.raises(Conflict, match=r"daemons run 18\.2\.7, 19\.2\.3"):
        refuse_upgrade(await storage.observe(), other)
    await storage.begin_upgrade(TARGET)
    assert (await storage.renewal()).running
    assert manager.heard(START) == 2


async def test_crashes_count_for_a_day(storage: CephStorage, manager: Manager) -> None:
    manager.faults.add(Fault(where="ceph crash", how=How.FAIL, times=1, seconds=3600))
    with pytest.raises(Conflict, match="RECENT_CRASH: 1 daemons have recently crashed"):
        refuse_upgrade(await storage.observe(), TARGET)
    manager.faults.add(Fault(where="ceph crash", how=How.FAIL, times=1000, seconds=90_000))
    seen = await storage.observe()
    assert [check.code for check in seen.checks] == ["RECENT_CRASH"]
    refuse_upgrade(seen, TARGET)


async def test_an_image_that_cannot_be_found_is_an_alarm(
    storage: CephStorage, manager: Manager
) -> None:
    manager.faults.add(Fault(where="ceph pull", how=How.FAIL, times=1000))
    await storage.begin_upgrade(TARGET)
    assert (await storage.renewal()).done == 0
    said = "UPGRADE_FAILED_PULL: Upgrade: failed to pull target image"
    assert alarming(await storage.observe()) == said


async def test_it_is_paused_and_goes_on(storage: CephStorage, manager: Manager) -> None:
    await storage.pause_upgrade()
    assert manager.heard("ceph PUT cluster/upgrade/pause") == 0
    await storage.begin_upgrade(TARGET)
    for _ in range(2):
        await storage.pause_upgrade()
    assert manager.heard("ceph PUT cluster/upgrade/pause") == 1
    before = await storage.renewal()
    assert (before.paused, before) == (True, await storage.renewal())
    await storage.begin_upgrade(TARGET)
    assert (await storage.renewal()).done > before.done


async def test_on_the_way_to_another_version_it_is_left_alone(
    storage: CephStorage, manager: Manager
) -> None:
    manager.cluster.renew("18.2.8")
    with pytest.raises(Conflict, match=r"v18\.2\.8 already"):
        await storage.begin_upgrade(TARGET)
    assert manager.heard(START) == 0


async def test_what_holds_it_holds_it(storage: CephStorage, manager: Manager) -> None:
    manager.faults.add(Fault(where="ceph upgrade", how=How.FAIL, times=1000))
    await storage.begin_upgrade(TARGET)
    assert (await storage.renewal()).done == (await storage.renewal()).done == 0


async def test_a_manager_before_18_has_no_words_for_it() -> None:
    async with Scripted().session() as session:
        with pytest.raises(Unsupported):
            await RestUpgrades(session).renewal()


async def test_a_manager_without_an_orchestrator_is_not_one_that_is_down() -> None:
    said = {"code": "orchestrator_status_unavailable", "detail": "Orchestrator is unavailable"}
    async with Scripted(status=[Reply(503, said)]).session() as session:
        with pytest.raises(Unavailable) as refused:
            await session.get("status")
        assert refused.value.reason == "CEPH_NO_ORCHESTRATOR"
