"""Our way with Ceph against a real one: what we show of it, and what we change in it."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from activities.storage_watch import StorageWatch
from api import build
from api.__main__ import Api
from api.koor.convert import size
from api.launch import client
from clients.ceph import CephStorage, ProgramIdentities, ProgramMons, RestIdentities, Session
from domain import operation as operations
from domain.errors import AlreadyExists, Conflict, NotFound, Unsupported
from domain.operation import Ask, Operation
from domain.share import Identity, PoolTerms, Share
from domain.storage import Light
from domain.wishes import DELETE
from protos.gen.koor.api.resources.stats import stats_pb2 as parts
from protos.gen.koor.api.services.stats import stats_pb2 as pb
from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceStub
from settings import Settings, Temporal
from sim.world import MemoryWorld
from store import schema
from store.engine import Database
from store.observations import Observations
from store.secrets import Secrets
from tests.api.caller import NOBODY, Caller
from tests.conformance.ceph_cluster import OSDS, USER, Ceph, cluster
from tests.conformance.environments import found, said
from tests.conformance.processes import EndedBadlyError, eventually
from tests.conformance.stage import MissingError, Stage
from tests.vaults import MemoryVault
from tests.workflows.yard import Trouble, yard

PROGRAMS = {
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
    "ceph": "ceph-common",
    "rados": "ceph-common",
}
DASHBOARD = Path("/usr/share/ceph/mgr/dashboard/module.py")
BEFORE_17 = re.compile(r"version (\d+)\.")
SECONDS = 60
FROZEN_SECONDS = 20
"""By then a mon that is frozen has to show."""
EVERY = timedelta(seconds=2)
"""Longer than what was read is handed on, so that every look shows."""
SHARE = Share.of("c0ffee00-9d5e-4a7b", PoolTerms(groups=8, most_bytes=1 << 30))
WANTED, IDENTITY = SHARE.pool, SHARE.identity
FOREIGN = "somebody-elses"
VAULT = MemoryVault()
ON_SQLITE = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)


async def prepare() -> str:
    for program, package in PROGRAMS.items():
        found(program, package=package)
    if not DASHBOARD.exists():  # noqa: ASYNC240 (nothing else goes on yet)
        raise MissingError("there is no dashboard here: install the package ceph-mgr-dashboard")
    version = await said("ceph", "--version")
    if (major := BEFORE_17.search(version)) and int(major[1]) >= 17:
        raise MissingError(f"the dashboard of Debian's {version} cannot be loaded; 16 is looked at")
    return version


STAGE = Stage(
    name="ceph",
    proves="what is shown of Ceph is what Ceph says, and pools, identities and OSDs are changed",
    prepare=prepare,
    tests=("tests/conformance/ceph.py",),
    seconds=400,
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real() -> AsyncIterator[Ceph]:
    assert shutil.which("ceph-mon"), "install ceph-mon ceph-mgr ceph-osd ceph-mgr-dashboard"
    async with cluster() as ceph:
        yield ceph


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def storage(real: Ceph) -> AsyncIterator[CephStorage]:
    session = Session([real.url], USER, real.secret)
    storage = CephStorage(session, ProgramIdentities(real.conf, real.keyring), VAULT)
    yield storage
    await storage.close()


class Shown:
    """The statistics service over the real cluster, which a watch keeps fresh."""

    def __init__(self, stub: Any, watch: StorageWatch) -> None:
        self._stub, self._watch = stub, watch

    async def _looked(self) -> None:
        await eventually("it is time to look", self._watch.turn, seconds=SECONDS)

    async def stats(self) -> parts.ClusterStats:
        await self._looked()
        reply = await self._stub.GetClusterStats(pb.GetClusterStatsRequest(), timeout=20)
        told: parts.ClusterStats = reply.stats
        return told

    async def __call__(self, method: str) -> Any:
        await self._looked()
        request = getattr(pb, f"{method}Request")()
        return await getattr(self._stub, method)(request, timeout=20)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shown(
    real: Ceph, storage: CephStorage, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shown]:
    home = tmp_path_factory.mktemp("api")
    url = f"sqlite+aiosqlite:///{home}/windlass.db"
    await schema.upgrade(url)
    settings = Settings(
        database=url,
        key_file=home / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address=NOBODY),
    )
    api, database = Api(settings, await client(NOBODY, "default"), build.Build()), Database(url)
    caller = Caller((await api.start())[0])
    mons = ProgramMons(real.conf, real.keyring)
    watch = StorageWatch(Observations(database), storage, "ceph", EVERY, mons=mons)
    yield Shown(StatsServiceStub(caller.channel), watch)
    await caller.close()
    await api.stop()
    await database.close()


def moment(stamp: Any) -> datetime:
    return stamp.ToDatetime()  # type: ignore[no-any-return]


def read(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


async def test_a_pool_and_its_identity_are_made_once(real: Ceph, storage: CephStorage) -> None:
    made = await storage.ensure_pool(WANTED)
    assert await storage.ensure_pool(WANTED) == made
    assert made.cluster == real.fsid
    dumped = {each["pool_name"]: each for each in (await real.told("osd", "dump"))["pools"]}
    pool = dumped[WANTED.name]
    assert (pool["size"], pool["pg_num"], pool["quota_max_bytes"]) == (3, 8, 1 << 30)
    assert set(pool["application_metadata"]) == {"rbd", WANTED.mark}
    for _ in range(2):
        await storage.ensure_identity(IDENTITY)
        [known] = await real.told("auth", "get", IDENTITY.entity)
        key = VAULT.secrets[IDENTITY.secret].decode()
        assert (known["key"], known["caps"]) == (key, IDENTITY.caps)
        await real.ceph("auth", "caps", IDENTITY.entity, "mon", "allow r")
    await storage.ensure_identity(IDENTITY)
    [known] = await real.told("auth", "get", IDENTITY.entity)
    assert (known["key"], known["caps"]) == (key, IDENTITY.caps)


async def test_the_identity_is_limited_to_its_pool(real: Ceph, storage: CephStorage) -> None:
    await real.ceph("osd", "pool", "create", FOREIGN, "8")
    await real.ceph("osd", "pool", "application", "enable", FOREIGN, "rbd")
    keyring = real.home / "csi.keyring"
    await real.ceph("auth", "get", IDENTITY.entity, "-o", str(keyring))
    thing = real.home / "thing"
    thing.write_bytes(b"x" * (1 << 20))
    as_it = ("rados", "--conf", real.conf, "--name", IDENTITY.entity, "--keyring", keyring)
    await real.run(*as_it, "--pool", WANTED.name, "put", "thing", thing)
    with pytest.raises(EndedBadlyError, match="not permitted"):
        await real.run(*as_it, "--pool", FOREIGN, "put", "thing", thing)


async def test_every_figure_is_that_of_the_command(real: Ceph, shown: Shown) -> None:
    """Figures of usage move by themselves for a while after a write: they are waited for."""
    await eventually("all is clean", real.healthy, seconds=SECONDS)

    async def same() -> bool:
        before = await real.told("df")
        told, after = await shown.stats(), await real.told("df")
        usage = (told.data.usage.used, told.data.usage.available, told.data.usage.total)
        names = ("total_used_bytes", "total_avail_bytes", "total_bytes")
        stored = sum(pool["stats"]["stored"] for pool in after["pools"])
        return (
            before == after
            and usage == tuple(after["stats"][name] for name in names)
            and told.data.objects.size == size(stored)
            and stored >= 1 << 20
        )

    await eventually("space is that of ceph df", same, seconds=SECONDS)
    told = await shown.stats()
    services, data = told.services, told.data
    assert told.id == (await real.told("fsid"))["fsid"]
    assert told.status == (await real.told("health"))["status"]
    assert [each.description for each in told.crashes] == []
    mons, quorum = await real.told("mon", "dump"), await real.told("quorum_status")
    assert services.mon.daemon_count == len(mons["mons"])
    assert services.mon.quorum == ",".join(quorum["quorum_names"])
    assert moment(services.mon.created_at) == read(mons["created"]).replace(tzinfo=None)
    assert moment(services.mon.updated_at) == read(mons["modified"]).replace(tzinfo=None)
    manager = await real.told("mgr", "dump")
    assert services.mgr.active == manager["active_name"]
    assert list(services.mgr.standbys) == [each["name"] for each in manager["standbys"]]
    assert moment(services.mgr.updated_at) == read(manager["active_change"])
    systems = await real.told("fs", "dump")
    assert services.mds.daemons_up == len(systems["filesystems"]) == data.volumes
    assert services.mds.hot_standby_count == len(systems["standbys"])
    osds = await real.told("osd", "dump")
    assert services.osd.osd_count == len(osds["osds"])
    assert services.osd.osd_up == sum(each["up"] for each in osds["osds"])
    assert services.osd.osd_in == sum(each["in"] for each in osds["osds"])
    assert moment(services.osd.osd_up_updated_at) == read(osds["last_up_change"])
    assert moment(services.osd.osd_in_updated_at) == read(osds["last_in_change"])
    assert (services.rgw.active_daemon, services.rgw.host_count, services.rgw.zone_count) == (
        0,
        0,
        0,
    )
    assert data.pools.pools == len(osds["pools"])
    groups = (await real.told("pg", "stat"))["pg_summary"]["num_pg_by_state"]
    assert [data.pools.pgs.active_clean] == [
        each["num"] for each in groups if each["name"] == "active+clean"
    ]
    status = await real.told("status")
    assert data.objects.object_count == status["pgmap"]["num_objects"]
    assert told.iops.client_read.endswith("/s rd")


async def test_the_other_views_are_of_the_same_cluster(real: Ceph, shown: Shown) -> None:
    pools = {each["poolname"] for each in await real.told("osd", "lspools")}
    resources = await shown("GetClusterResources")
    assert {each.name for each in resources.resources if each.kind == "CephBlockPool"} == pools
    assert {each.name for each in resources.deployments} == {"mon", "mgr", "osd"}
    nodes = (await shown("GetClusterNodes")).nodes
    hosts = [each for each in (await real.told("osd", "tree"))["nodes"] if each["type"] == "host"]
    assert [node.name for node in nodes] == [each["name"] for each in hosts]
    assert list(nodes[0].roles) == ["mgr", "mon", "osd"]
    radar = (await shown("GetClusterRadar")).radar
    ratio = (await real.told("df"))["stats"]["total_used_raw_ratio"]
    assert radar.capacity_available == pytest.approx(100 * (1 - ratio), abs=0.2)
    assert (radar.cluster_health, radar.nodes_health, radar.stability) == (100, 100, 100)
    koor = (await shown("GetKoorCluster")).koor_cluster
    assert f"version {koor.status.current_versions.ceph} " in await real.ceph("--version")


async def test_what_is_somebody_elses_is_left_alone(real: Ceph, storage: CephStorage) -> None:
    theirs = WANTED.model_copy(update={"name": FOREIGN})
    with pytest.raises(AlreadyExists):
        await storage.ensure_pool(theirs)
    await storage.delete_pool(theirs)
    assert FOREIGN in await real.ceph("osd", "lspools")


async def test_pool_and_identity_are_gone_again(real: Ceph, storage: CephStorage) -> None:
    for _ in range(2):
        await storage.revoke_identity(IDENTITY)
        await storage.delete_pool(WANTED)
    assert WANTED.name not in await real.ceph("osd", "lspools")
    assert IDENTITY.entity not in await real.ceph("auth", "ls")
    assert "mon_allow_pool_delete" not in await real.ceph("config", "dump")


async def test_this_release_has_no_identities_over_rest(real: Ceph) -> None:
    session = Session([real.url], USER, real.secret)
    with pytest.raises(Unsupported):
        await RestIdentities(session).ensure(IDENTITY)
    await session.close()


class Noting(CephStorage):
    """The real one, for a cluster that is not: its API in memory wants to know who may use what."""

    def __init__(self, storage: CephStorage, world: MemoryWorld) -> None:
        vars(self).update(vars(storage))
        self._world = world

    async def ensure_identity(self, identity: Identity) -> None:
        await super().ensure_identity(identity)
        self._world.identities[identity.entity] = identity.pool


@ON_SQLITE
async def test_what_create_cluster_makes_goes_with_the_cluster(
    real: Ceph,
    storage: CephStorage,
    temporal: WorkflowEnvironment,
    database: Database,
    vault: Secrets,
    queues: str,
) -> None:
    world = MemoryWorld.of(2)
    noting = Noting(storage, world)
    async with yard(temporal.client, database, vault, queues, world=world, storage=noting) as place:
        asked = await place.ask(storage=True)
        await place.carry_out(asked)
        share = (await place.operations.plan(asked.id)).storage
        assert share is not None
        assert share.pool.name in await real.ceph("osd", "lspools")
        [known] = await real.told("auth", "get", share.identity.entity)
        assert known["caps"] == share.identity.caps
        assert (await place.delete(data=DELETE)).stage is operations.Stage.SUCCEEDED
        assert share.pool.name not in await real.ceph("osd", "lspools")
        assert share.identity.entity not in await real.ceph("auth", "ls")


@ON_SQLITE
async def test_osds_go_out_are_safe_to_destroy_and_come_in(
    real: Ceph,
    storage: CephStorage,
    temporal: WorkflowEnvironment,
    database: Database,
    vault: Secrets,
    queues: str,
) -> None:
    await eventually("all is clean", real.healthy, seconds=SECONDS)
    trouble = Trouble()
    async with yard(
        temporal.client, database, vault, queues, storage=storage, trouble=trouble
    ) as place:

        async def inside() -> list[int]:
            return [each["osd"] for each in (await real.told("osd", "dump"))["osds"] if each["in"]]

        async def asked(*osds: int, inside: bool = False) -> Operation:
            await place.look(await storage.observe())
            ask = Ask(method="mark")
            made = await place.storages.request_marks("ceph", osds, ask, inside=inside)
            assert made is not None
            return made

        async def carried_out(operation: Operation) -> operations.Stage:
            await place.carry_out(operation)
            return (await place.operations.get(operation.id)).stage

        assert await carried_out(await asked(3)) is operations.Stage.SUCCEEDED
        assert await inside() == [0, 1, 2]
        assert (await real.told("osd", "safe-to-destroy", "3"))["safe_to_destroy"] == [3]
        groups = (await real.told("pg", "stat"))["pg_summary"]["num_pg_by_state"]
        assert {each["name"] for each in groups} == {"active+clean"}
        with pytest.raises(Conflict, match="3 copies on different OSDs, and 2 would be left"):
            await asked(2)
        with pytest.raises(NotFound):
            await asked(77)
        assert await carried_out(await asked(3, inside=True)) is operations.Stage.SUCCEEDED
        assert await inside() == [0, 1, 2, 3]
        taken: list[Operation] = []

        async def may_be_taken() -> bool:
            """Not while the copies move back onto the one that has come in."""
            with suppress(Conflict):
                taken.append(await asked(1))
            return bool(taken)

        await eventually("another one may go", may_be_taken, seconds=SECONDS)
        [called_off] = taken
        trouble.when = lambda key: key.verb == "storage.mark_osd"
        trouble.then = partial(place.cancel, called_off.id)
        assert await carried_out(called_off) is operations.Stage.CANCELLED
        assert await inside() == [0, 1, 2, 3]


async def test_a_mon_that_is_frozen_shows_although_the_manager_says_that_all_is_well(
    real: Ceph, storage: CephStorage, shown: Shown
) -> None:
    await eventually("all is clean", real.healthy, seconds=SECONDS)
    assert (await shown.stats()).status == "HEALTH_OK"

    async def is_shown(status: str) -> bool:
        return (await shown.stats()).status == status

    began = monotonic()
    real.freeze("mon.a")
    try:
        await eventually("it shows", partial(is_shown, "HEALTH_OFFLINE"), seconds=SECONDS)
        took = monotonic() - began
        seen = await storage.observe()
    finally:
        real.thaw("mon.a")
    assert took < FROZEN_SECONDS, f"it took {took:.1f} s"
    assert (seen.light, seen.live) == (Light.OK, True), "the manager has not noticed"
    await eventually("it is back", partial(is_shown, "HEALTH_OK"), seconds=SECONDS)


async def test_an_osd_that_is_killed_shows(real: Ceph, shown: Shown) -> None:
    """As soon as Ceph itself knows, the next look does."""
    real.kill("osd.2")

    async def known() -> bool:
        return bool((await real.told("osd", "stat"))["num_up_osds"] == OSDS - 1)

    await eventually("Ceph has noticed", known, seconds=SECONDS)

    async def seen() -> bool:
        told = await shown.stats()
        return (told.services.osd.osd_up, told.status) == (OSDS - 1, "HEALTH_WARN")

    assert await seen(), "the first look after Ceph knows does not show it"
    groups = {each.name: each for each in (await shown("GetClusterResources")).deployments}
    assert groups["osd"].status == parts.RESOURCE_NOT_READY
    assert groups["osd"].reliability == parts.RELIABILITY_DEGRADED


async def test_of_a_manager_that_is_killed_the_mons_tell(real: Ceph, shown: Shown) -> None:
    """At once that it is silent, and half a minute later that they miss it."""
    real.kill("mgr.x")

    async def says(words: str) -> bool:
        stats = await shown.stats()
        assert stats.status == "HEALTH_WARN"
        return words in [each.description for each in stats.crashes]

    silent = partial(says, "the manager does not answer")
    await eventually("it is silent", silent, seconds=SECONDS)
    await eventually("the mons miss it", partial(says, "no active mgr"), seconds=SECONDS)
