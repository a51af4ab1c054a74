import asyncio
from collections.abc import AsyncIterator

import pytest

from clients.ceph import CephStorage
from domain.errors import AlreadyExists, NotFound, Unavailable
from domain.share import PoolTerms, Share
from domain.storage import Light, Observation
from domain.storage_gates import restless
from domain.storage_plan import OsdMark
from sim.ceph import health
from sim.faults import Fault, How
from tests.clients.ceph.manager import Manager
from tests.domain.ceph import recorded
from tests.support.load import limit

SHARE = Share.of("1f6f6f2c-9d5e-4a7b", PoolTerms(most_bytes=1 << 30))
WANTED, IDENTITY = SHARE.pool, SHARE.identity
ALWAYS = 1000


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    async with Manager().serve() as manager:
        yield manager


@pytest.fixture
async def storage(manager: Manager) -> AsyncIterator[CephStorage]:
    async with manager.storage() as storage:
        yield storage


async def test_a_look_tells_what_is_there(storage: CephStorage, manager: Manager) -> None:
    seen = await storage.observe()
    assert (seen.light, seen.live, seen.version) == (Light.OK, True, "18.2.7")
    assert seen.mons.quorum == ("a", "b", "c")
    assert (seen.manager.active, seen.manager.standbys) == ("x", ("y",))
    assert len(seen.osds.all) == 6
    assert {host.name for host in seen.hosts} == {osd.host for osd in seen.osds.all}
    assert (seen.metadata_servers_up, seen.hot_standbys, len(seen.gateways)) == (1, 1, 2)
    assert {pool.domain for pool in seen.pools} == {"host"}
    assert seen.clean == sum(sum(pool.states.values()) for pool in seen.pools)


def _shape(it: object) -> object:
    """The keys of a document, of lists those of their first."""
    if isinstance(it, dict):
        return {key: _shape(each) for key, each in it.items()}
    return [_shape(it[0])] if isinstance(it, list) and it else None


def _lacking(wanted: object, there: object, path: str = "") -> list[str]:
    if isinstance(wanted, dict):
        assert isinstance(there, dict), path
        return [
            lost
            for key, each in wanted.items()
            for lost in (_lacking(each, there[key], f"{path}/{key}") if key in there else [path])
        ]
    if isinstance(wanted, list) and isinstance(there, list) and there:
        return _lacking(wanted[0], there[0], f"{path}[]")
    return []


PARTS = ("health", "pg_info", "client_perf", "mgr_map")


def test_the_simulated_health_has_the_shape_of_the_recorded_one(manager: Manager) -> None:
    real, ours = recorded("health-full.reef"), health.full(manager.cluster)
    assert ours.keys() == real.keys()
    for part in PARTS:
        assert not _lacking(_shape(real[part]), _shape(ours[part]), part)


async def later(storage: CephStorage, code: str) -> Observation:
    """What is seen once that check fails."""
    async with limit(60):
        while True:
            seen = await storage.observe()
            if code in {check.code for check in seen.checks}:
                return seen
            await asyncio.sleep(0.1)


async def test_dead_osds_show(storage: CephStorage, manager: Manager) -> None:
    """As real Ceph shows them: the map at once, degraded groups some seconds later."""
    born = (await storage.observe()).osds.up_changed
    assert born is not None
    manager.faults.add(Fault(where="ceph osd.0", how=How.FAIL, times=ALWAYS))
    seen = await storage.observe()
    assert (seen.light, [osd.up for osd in seen.osds.all].count(False)) == (Light.WARN, 1)
    assert [check.code for check in seen.checks] == ["OSD_DOWN"], "groups have not noticed yet"
    assert seen.states.keys() == {"active+clean"}
    assert seen.osds.up_changed is not None
    assert seen.osds.up_changed > born
    seen = await later(storage, "PG_DEGRADED")
    assert [check.code for check in seen.checks] == ["OSD_DOWN", "PG_DEGRADED"]
    assert not seen.inactive
    assert "active+undersized+degraded" in seen.states
    manager.faults.add(Fault(where="ceph osd.[1-3]", how=How.FAIL, times=ALWAYS))
    seen = await later(storage, "PG_AVAILABILITY")
    assert [check.code for check in seen.checks] == ["OSD_DOWN", "PG_AVAILABILITY", "PG_DEGRADED"]
    assert seen.inactive == sum(seen.states.values())
    manager.faults.clear()
    assert (await storage.observe()).light is Light.OK


async def test_a_pool_whose_quota_is_reached_is_full(
    storage: CephStorage, manager: Manager
) -> None:
    await storage.ensure_pool(WANTED)
    pool = manager.cluster.state.pools[WANTED.name]
    assert not any(each.full for each in (await storage.observe()).pools)
    pool.stored = pool.most_bytes
    seen = await storage.observe()
    assert [each.name for each in seen.pools if each.full] == [WANTED.name]
    assert [check.code for check in seen.checks] == ["POOL_FULL"]


async def test_a_manager_that_hears_no_mon_is_not_live(
    storage: CephStorage, manager: Manager
) -> None:
    manager.faults.add(Fault(where="ceph mons", how=How.FAIL))
    seen = await storage.observe()
    assert (seen.light, seen.live) == (Light.OK, False)


async def test_gateways_that_cannot_be_asked_are_left_out(
    storage: CephStorage, manager: Manager
) -> None:
    manager.faults.add(Fault(where="ceph GET rgw/daemon", how=How.REFUSE, status=500))
    seen = await storage.observe()
    assert (seen.active_gateways, seen.gateways) == (2, ())


async def test_a_pool_is_made_once(storage: CephStorage, manager: Manager) -> None:
    made = await storage.ensure_pool(WANTED)
    assert await storage.ensure_pool(WANTED) == made
    pool = manager.cluster.state.pools[WANTED.name]
    assert (pool.groups, pool.size, pool.most_bytes) == (32, 3, 1 << 30)
    assert pool.applications == ["rbd", "windlass.1f6f6f2c-9d5e-4a7b"]
    assert made.cluster == manager.cluster.state.fsid
    assert len(made.mons) == 3
    manager.faults.add(Fault(where="ceph PUT pool/*", how=How.HALF))
    larger = WANTED.model_copy(update={"most_bytes": 2 << 30})
    with pytest.raises(Unavailable):
        await storage.ensure_pool(larger)
    await storage.ensure_pool(larger)
    assert pool.most_bytes == 2 << 30


async def test_what_is_somebody_elses_is_left_alone(storage: CephStorage, manager: Manager) -> None:
    manager.cluster.create(WANTED.name, applications=["rbd", "windlass.other"])
    with pytest.raises(AlreadyExists, match="somebody else's"):
        await storage.ensure_pool(WANTED)
    await storage.delete_pool(WANTED)
    assert WANTED.name in manager.cluster.state.pools
    assert not manager.cluster.ours()["switches"]


async def test_a_pool_goes_and_the_switch_is_off(storage: CephStorage, manager: Manager) -> None:
    await storage.ensure_pool(WANTED)
    for how in (How.DROP, How.HALF):
        manager.faults.add(Fault(where="ceph DELETE pool/*", how=how))
        with pytest.raises(Unavailable):
            await storage.delete_pool(WANTED)
        assert not manager.cluster.ours()["switches"]
    await storage.delete_pool(WANTED)
    await storage.delete_pool(WANTED)
    assert not manager.cluster.ours()["pools"]


async def test_a_switch_that_was_left_on_is_turned_off(
    storage: CephStorage, manager: Manager
) -> None:
    """As by a worker that died in between, after the pool had gone."""
    manager.cluster.state.conf["mon_allow_pool_delete"] = {"mon.a": "true", "mon": "false"}
    await storage.delete_pool(WANTED)
    assert manager.cluster.state.conf["mon_allow_pool_delete"] == {"mon": "false"}


async def test_a_deletion_that_met_another_is_tried_again(
    storage: CephStorage, manager: Manager
) -> None:
    await storage.ensure_pool(WANTED)
    manager.faults.add(Fault(where="ceph PUT cluster_conf", how=How.REFUSE, status=200, times=3))
    with pytest.raises(Unavailable, match="pool deletion is disabled"):
        await storage.delete_pool(WANTED)


async def test_an_identity_keeps_its_key(storage: CephStorage, manager: Manager) -> None:
    await storage.ensure_identity(IDENTITY)
    key = manager.vault.secrets[IDENTITY.secret]
    assert key.decode() == manager.cluster.state.keys[IDENTITY.entity]
    assert manager.cluster.state.users[IDENTITY.entity] == IDENTITY.caps
    manager.cluster.state.users[IDENTITY.entity] = {"mon": "allow *"}
    await storage.ensure_identity(IDENTITY)
    assert manager.vault.secrets[IDENTITY.secret] == key
    assert manager.cluster.state.users[IDENTITY.entity] == IDENTITY.caps
    await storage.revoke_identity(IDENTITY)
    await storage.revoke_identity(IDENTITY)
    assert not manager.cluster.ours()["users"]


async def test_a_mark_is_set_once_and_seen(storage: CephStorage, manager: Manager) -> None:
    out = OsdMark(id=1, inside=False)
    for _ in range(2):
        await storage.mark_osd(out)
    assert manager.heard("ceph PUT osd/1/mark") == 1
    seen = await storage.observe()
    assert [osd.id for osd in seen.osds.all if not osd.inside] == [1]
    await storage.mark_osd(out.back())
    assert manager.cluster.state.out == []


async def test_an_osd_that_ceph_does_not_have_is_not_marked(
    storage: CephStorage, manager: Manager
) -> None:
    """It would say yes."""
    with pytest.raises(NotFound, match=r"osd\.77"):
        await storage.mark_osd(OsdMark(id=77, inside=False))
    assert manager.heard("ceph PUT osd/77/mark") == 0


async def test_a_mark_that_does_not_show_is_not_believed(
    storage: CephStorage, manager: Manager
) -> None:
    """An answer of something in between, which never asked."""
    manager.cluster.mark = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match=r"osd\.1 out yet"):
        await storage.mark_osd(OsdMark(id=1, inside=False))


async def test_an_osd_is_safe_once_all_is_moved(storage: CephStorage, manager: Manager) -> None:
    manager.faults.add(Fault(where="ceph move", how=How.FAIL))
    await storage.mark_osd(OsdMark(id=1, inside=False))
    assert manager.faults.met()[0][1], "nothing moved"
    while not await storage.safe_to_destroy(1):
        assert restless(await storage.observe())
    assert not restless(await storage.observe())
    assert not await storage.safe_to_destroy(2)
    assert not await storage.safe_to_destroy(77)


async def test_a_pool_of_another_number_is_left_alone(
    storage: CephStorage, manager: Manager
) -> None:
    await storage.ensure_pool(WANTED)
    there = manager.cluster.state.pools[WANTED.name]
    await storage.delete_pool(WANTED.model_copy(update={"id": there.id + 1}))
    assert WANTED.name in manager.cluster.state.pools
    await storage.delete_pool(WANTED.model_copy(update={"id": there.id}))
    assert WANTED.name not in manager.cluster.state.pools
