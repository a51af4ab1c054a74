"""The statistics service, over what was recorded of real clusters."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from api.koor import convert
from api.koor.states import RELIABILITY, RESOURCE_STATUS, UPGRADE_MODE
from domain.radar import Stability
from domain.reliability import Score
from domain.storage import Light
from domain.storage_home import Home
from domain.storage_look import Look
from domain.storage_mons import instead, word
from domain.storage_resources import Standing
from domain.upgrade_policy import Mode
from protos.gen.koor.api.resources.stats import stats_pb2 as parts
from protos.gen.koor.api.services.stats import stats_pb2 as pb
from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceStub
from settings import Settings, Temporal
from store import schema
from store.engine import Database
from store.observations import Observations
from systems import Ceph
from tests.api.caller import NOBODY, Caller, answered, refused
from tests.domain.ceph import recorded, seen
from tests.domain.test_storage_ages import DUMP

EVERY = timedelta(minutes=10)


@pytest.fixture
async def database_url(tmp_path: Path) -> str:
    """One database will do: the store's own tests have both."""
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    return url


@pytest.fixture
async def observations(database_url: str) -> AsyncIterator[Observations]:
    database = Database(database_url)
    yield Observations(database)
    await database.close()


@pytest.fixture
def stats(caller: Caller) -> Any:
    return StatsServiceStub(caller.channel)


async def see(
    observations: Observations,
    case: str = "ok",
    ago: timedelta = timedelta(0),
    home: Home | None = None,
) -> None:
    await observations.claim("ceph", EVERY)
    at = datetime.now(UTC) - ago
    look = Look(observation=seen(case).model_copy(update={"at": at}), home=home)
    await observations.keep("ceph", look)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "ok",
            (
                "HEALTH_OK",
                0,
                (3, 3, 3),
                49,
                212,
                "7.16 KiB",
                913842176,
                "0.00 B/s wr",
                "0 ops/s wr",
            ),
        ),
        (
            "under-load",
            (
                *("HEALTH_OK", 0, (3, 3, 3), 73, 11045, "491.31 MiB", 2465419264),
                *("5.04 MiB/s wr", "322 ops/s wr"),
            ),
        ),
        (
            "osd-down",
            (
                *("HEALTH_WARN", 1, (3, 2, 2), 0, 7110, "644.73 MiB", 1536561152),
                *("0.00 B/s wr", "0 ops/s wr"),
            ),
        ),
        (
            "fs-failed",
            (
                *("HEALTH_ERR", 2, (3, 3, 3), 65, 2706, "155.33 MiB", 1444401152),
                *("0.00 B/s wr", "0 ops/s wr"),
            ),
        ),
        (
            "reef",
            (
                *("HEALTH_OK", 0, (3, 3, 3), 49, 214, "455.79 KiB", 85217280),
                *("170.00 B/s wr", "0 ops/s wr"),
            ),
        ),
    ],
)
def test_what_was_recorded_is_told_as_it_was(case: str, told: tuple[Any, ...]) -> None:
    reply = convert.stats(seen(case), seen(case).light)
    osd = reply.services.osd
    assert told == (
        reply.status,
        len(reply.crashes),
        (osd.osd_count, osd.osd_up, osd.osd_in),
        reply.data.pools.pgs.active_clean,
        reply.data.objects.object_count,
        reply.data.objects.size,
        reply.data.usage.used,
        reply.iops.client_write,
        reply.iops.client_write_ops,
    )
    assert reply.services.mon.quorum == "a"
    assert reply.services.rgw.host_count == reply.services.rgw.zone_count == 1
    assert reply.services.mon.created_at.seconds > 0
    assert not reply.test


def test_what_never_was_is_left_unset_and_counts_stay_in_their_bits() -> None:
    manager = seen().manager.model_copy(update={"since": None})
    many = seen().model_copy(update={"manager": manager, "objects": 2**40})
    reply = convert.stats(many, Light.OK)
    assert not reply.services.mgr.HasField("updated_at")
    assert reply.data.objects.object_count == 2**31 - 1


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0.00 B"), (1023, "1023.00 B"), (1024, "1.00 KiB"), (7 * 1024**6, "7.00 EiB")],
)
def test_sizes_are_told_in_the_greatest_unit(number: int, text: str) -> None:
    assert convert.size(number) == text


def test_every_mode_has_its_word() -> None:
    assert UPGRADE_MODE.keys() == set(Mode)


def test_every_standing_and_score_has_its_word() -> None:
    assert RESOURCE_STATUS.keys() == set(Standing)
    assert RELIABILITY.keys() == {None, *Score}


async def test_all_five_are_answered_from_one_look(observations: Observations, stats: Any) -> None:
    await see(observations, "osd-down")
    reply, beside = await answered(stats.GetClusterStats(pb.GetClusterStatsRequest(), timeout=20))
    assert reply.stats.status == "HEALTH_WARN"
    assert datetime.fromisoformat(beside["windlass-observed-at"]).tzinfo is not None
    assert beside["windlass-source"] == "rest"
    found = await stats.GetClusterResources(pb.GetClusterResourcesRequest(), timeout=20)
    assert {each.kind for each in found.resources} == {
        *("CephCluster", "CephBlockPool", "CephFilesystem", "CephObjectStore")
    }
    groups = {each.name: each for each in found.deployments}
    assert groups["osd"].status == parts.RESOURCE_NOT_READY
    assert groups["osd"].reliability == parts.RELIABILITY_DEGRADED
    nodes = await stats.GetClusterNodes(pb.GetClusterNodesRequest(), timeout=20)
    assert [(node.name, node.status) for node in nodes.nodes] == [("node-a", parts.RESOURCE_READY)]
    assert not nodes.nodes[0].HasField("age")
    radar = (await stats.GetClusterRadar(pb.GetClusterRadarRequest(), timeout=20)).radar
    assert (radar.cluster_health, radar.nodes_health, radar.stability) == (50, 100, 90)
    koor = (await stats.GetKoorCluster(pb.GetKoorClusterRequest(), timeout=20)).koor_cluster
    assert koor.status.current_versions.ceph == "16.2.15"
    assert koor.status.total_resources.nodes == "1"
    assert koor.spec.dashboard_enabled
    names = (koor.spec.ksd_release_name, koor.spec.ksd_cluster_release_name)
    assert names == ("ksd", "ksd-cluster")
    options = koor.spec.upgrade_options
    assert (options.mode, options.schedule) == (parts.UPGRADE_MODE_NOTIFY, "0 0 * * *")
    assert koor.status.latest_versions.ceph.version == "18.2.7"
    assert not koor.status.meets_minimum_resources


async def test_old_news_are_offline(observations: Observations, stats: Any) -> None:
    await see(observations, ago=4 * EVERY)
    reply, beside = await answered(stats.GetClusterStats(pb.GetClusterStatsRequest(), timeout=20))
    assert (reply.stats.status, reply.stats.services.osd.osd_up) == ("HEALTH_OFFLINE", 3)
    assert beside["windlass-source"] == "none"
    radar = (await stats.GetClusterRadar(pb.GetClusterRadarRequest(), timeout=20)).radar
    assert (radar.cluster_health, radar.nodes_health, radar.capacity_available) == (
        0,
        0,
        pytest.approx(92.9),
    )


async def test_what_the_mons_cannot_tell_is_unknown_with_its_age(
    observations: Observations, stats: Any
) -> None:
    """With the manager dead and two of three OSDs down, nothing may look well for long."""
    await observations.claim("ceph", EVERY)
    now = datetime.now(UTC)
    last = seen().model_copy(update={"at": now - timedelta(hours=1)})
    it = instead(last, word(recorded("status.mgr-killed"), DUMP), now)
    await observations.keep("ceph", Look(observation=it))
    reply, beside = await answered(stats.GetClusterStats(pb.GetClusterStatsRequest(), timeout=20))
    assert beside["windlass-source"] == "cli"
    unknown = set(beside["windlass-unknown"].split(","))
    assert {"capacity", "placement-groups", "objects", "rates"} <= unknown
    assert "osds" not in unknown
    ages = dict(each.split("=") for each in beside["windlass-ages"].split(","))
    assert set(ages) == unknown
    assert now - datetime.fromisoformat(ages["capacity"]) >= timedelta(minutes=59)
    told = reply.stats
    assert (told.services.osd.osd_count, told.services.osd.osd_up) == (3, 1)
    assert told.services.osd.HasField("osd_up_updated_at")
    for message, field in (
        *((told.data, "usage"), (told.data, "objects"), (told.data.pools, "pgs")),
        *((told, "iops"), (told.services, "mds"), (told.services, "rgw")),
    ):
        assert not message.HasField(field), field
    found = await stats.GetClusterResources(pb.GetClusterResourcesRequest(), timeout=20)
    pools = {each.status for each in found.resources if each.kind == "CephBlockPool"}
    assert parts.RESOURCE_READY not in pools
    groups = {each.name: each.status for each in found.deployments}
    assert groups["mgr"] == groups["osd"] == parts.RESOURCE_NOT_READY
    reply, beside = await answered(stats.GetClusterRadar(pb.GetClusterRadarRequest(), timeout=20))
    assert set(beside["windlass-unknown"].split(",")) == {
        *("nodes_health", "capacity_available", "reliability")
    }
    assert reply.radar.cluster_health == 50
    koor = (await stats.GetKoorCluster(pb.GetKoorClusterRequest(), timeout=20)).koor_cluster
    assert koor.status.total_resources.storage == ""


async def test_nothing_seen_is_worth_another_try(stats: Any) -> None:
    refusal = await refused(stats.GetClusterStats(pb.GetClusterStatsRequest(), timeout=20))
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert (refusal.reason, refusal.retry) == ("STORAGE_UNSEEN", True)


async def test_another_cluster_is_not_there(observations: Observations, stats: Any) -> None:
    await see(observations)
    request = pb.GetClusterStatsRequest()
    for name, code in (("ceph", None), ("other", grpc.StatusCode.NOT_FOUND)):
        call = stats.GetClusterStats(request, timeout=20, metadata=(("windlass-ceph", name),))
        if code is None:
            assert (await call).stats.status == "HEALTH_OK"
        else:
            assert (await refused(call)).code is code


class TestWithoutCeph:
    @pytest.fixture
    def settings(self, database_url: str, tmp_path: Path) -> Settings:
        return Settings(
            database=database_url,
            key_file=tmp_path / "seal.key",
            grpc_address="127.0.0.1:0",
            http_address="127.0.0.1:0",
            temporal=Temporal(address=NOBODY),
            ceph=Ceph(urls=()),
        )

    async def test_there_is_nothing_to_tell(self, stats: Any) -> None:
        refusal = await refused(stats.GetClusterRadar(pb.GetClusterRadarRequest(), timeout=20))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "STORAGE_NOT_CONFIGURED"


class TestWeighted:
    @pytest.fixture
    def settings(self, database_url: str, tmp_path: Path) -> Settings:
        return Settings(
            database=database_url,
            key_file=tmp_path / "seal.key",
            grpc_address="127.0.0.1:0",
            http_address="127.0.0.1:0",
            temporal=Temporal(address=NOBODY),
            ceph=Ceph(stability=Stability.WEIGHTED),
        )

    async def test_an_error_takes_more_than_a_warning(
        self, observations: Observations, stats: Any
    ) -> None:
        await see(observations, "fs-failed")
        reply = await stats.GetClusterRadar(pb.GetClusterRadarRequest(), timeout=20)
        assert reply.radar.stability == 65
