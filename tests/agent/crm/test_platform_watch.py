"""What becomes of something that is READY, as the resource manager finds it on its platform."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from agent.crm import crm as managing
from agent.crm import platform_watch
from agent.crm.crm import Crm
from agent.crm.platform import AppOrder, Standing
from agent.crm.restarts import Restarts
from agent.crm.simulated import Simulated
from domain.errors import Failed
from domain.health_errors import WELL
from protos.gen.edge.app_inst_pb2 import AppInstInfo
from protos.gen.edge.app_pb2 import App
from protos.gen.edge.cloudlet_pb2 import (
    CLOUDLET_STATE_ERRORS,
    CLOUDLET_STATE_READY,
    CloudletInfo,
)
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import READY
from protos.gen.edge.flavor_pb2 import Flavor, FlavorKey
from tests.agent.crm.test_care import APP, CLUSTER, INSTANCE, PLACE, Bench, cluster, instance

GONE = Standing(("is gone",), (), 0)


class Watched(Bench):
    """A resource manager that has described its cloudlet, with a cluster and an app that run."""

    async def begin(self) -> None:
        await self.crm._describe()
        for message in (App(key=APP), Flavor(key=FlavorKey(name="small")), cluster("READY")):
            self.hear(message)
        running = instance("READY")
        running.runtime_info.container_ids.append("shop-0")
        self.hear(running)

    def ails(self, message: Any, *faults: str) -> None:
        self.platform.ailing[self.platform.name(message)] = Standing(faults, ("shop-1",))

    def report(self, kind: Any, key: Any) -> Any:
        return self.crm.reports.get(kind, key)

    async def inspect(self) -> None:
        await self.crm._watch.inspect()


@pytest.fixture
async def bench() -> AsyncIterator[Watched]:
    bench = Watched()
    await bench.begin()
    yield bench
    await bench.crm._leave_off()


async def test_what_is_well_is_not_reported(bench: Watched) -> None:
    await bench.inspect()
    assert bench.report(ClusterInstInfo, CLUSTER) is None
    assert bench.report(AppInstInfo, INSTANCE) is None
    assert bench.report(CloudletInfo, PLACE).errors == []


async def test_what_ails_is_reported_and_so_is_its_cure(bench: Watched) -> None:
    bench.ails(instance("READY"), "does not run: its node is lost")
    await bench.inspect()
    info = bench.report(AppInstInfo, INSTANCE)
    assert (info.state, list(info.errors)) == (READY, ["Health: does not run: its node is lost"])
    assert list(info.runtime_info.container_ids) == ["shop-1"]
    place = bench.report(CloudletInfo, PLACE)
    assert place.state == CLOUDLET_STATE_READY
    assert list(place.errors) == ["shop in c does not run: its node is lost"]
    shown = instance("READY")  # as the controller tells it from then on
    shown.errors.extend(info.errors)
    shown.runtime_info.CopyFrom(info.runtime_info)
    bench.hear(shown)
    await bench.inspect()
    assert bench.report(AppInstInfo, INSTANCE) is info, "it is known"
    bench.platform.ailing.clear()
    await bench.inspect()
    info = bench.report(AppInstInfo, INSTANCE)
    assert (info.state, list(info.errors)) == (READY, [WELL])
    assert bench.report(CloudletInfo, PLACE).errors == []


async def test_who_is_started_anew_takes_back_what_is_wrong_no_more(bench: Watched) -> None:
    ailed = cluster("READY")
    ailed.errors.extend(["Update failed: no", "Health: is gone"])
    bench.hear(ailed)
    await bench.inspect()
    assert list(bench.report(ClusterInstInfo, CLUSTER).errors) == [WELL]


@pytest.mark.parametrize("state", ["UPDATE_REQUESTED", "DELETE_REQUESTED", "CREATE_ERROR"])
async def test_only_what_is_ready_is_reported(
    bench: Watched, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was asked for something else while the platform told how it stands."""
    inspect = bench.platform.inspect
    bench.mishaps.silent = True

    async def slow(
        clusters: Sequence[ClusterInst], apps: Sequence[AppOrder]
    ) -> Mapping[str, Standing]:
        bench.hear(cluster(state))
        return await inspect(clusters, apps)

    bench.ails(cluster("READY"), "is gone")
    monkeypatch.setattr(bench.platform, "inspect", slow)
    await bench.inspect()
    assert bench.report(ClusterInstInfo, CLUSTER) is None


async def test_a_platform_that_does_not_answer_is_told_of(
    bench: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Any:
        raise Failed("Windlass does not tell of its clusters: no")

    async def silent(*_: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr(platform_watch, "INSPECT_SECONDS", 0.01)
    for inspect, why in ((away, "Windlass does not tell"), (silent, "did not answer within")):
        monkeypatch.setattr(bench.platform, "inspect", inspect)
        await bench.inspect()
        place = bench.report(CloudletInfo, PLACE)
        assert place.state == CLOUDLET_STATE_ERRORS
        assert why in place.errors[0]
        assert bench.crm._watch.counts is None
        assert bench.report(AppInstInfo, INSTANCE) is None, "nothing is known of it"
    monkeypatch.undo()
    await bench.inspect()
    assert bench.report(CloudletInfo, PLACE).state == CLOUDLET_STATE_READY


async def test_what_runs_is_counted_and_not_what_should(bench: Watched) -> None:
    await bench.inspect()
    assert bench.crm._watch.counts == platform_watch.Counts(clusters=1, apps=1)
    bench.ails(instance("READY"), "does not run")
    bench.platform.ailing[bench.platform.name(cluster("READY"))] = Standing(nodes=3)
    await bench.inspect()
    assert bench.crm._watch.counts == platform_watch.Counts(clusters=1, apps_unhealthy=1, nodes=3)


async def test_work_that_fails_does_not_tell_of_health(bench: Watched) -> None:
    bench.ails(cluster("READY"), "is gone")
    await bench.inspect()
    bench.mishaps.fails.add("delete")
    bench.hear(cluster("DELETE_REQUESTED"))
    await bench.says("DELETE_ERROR")
    assert list(bench.report(ClusterInstInfo, CLUSTER).errors) == ["Delete failed: no"]


async def test_it_is_told_within_fifteen_seconds() -> None:
    assert platform_watch.WATCH_SECONDS + platform_watch.INSPECT_SECONDS <= 15
    platform = Simulated()
    crm = Crm(PLACE, platform, ["nowhere:1"])
    crm._begin()
    crm._begin()
    assert len(crm._beside) == 2, "measured and watched once, whatever connects how often"
    await crm._leave_off()
    assert managing.MEASURE_SECONDS <= 15


def test_one_restart_is_no_loop() -> None:
    restarts = Restarts()
    assert [restarts.is_loop("a", count) for count in (3, 4, 5, 5, 6)] == [
        *(False, False, True, True, True)
    ]
    assert not restarts.is_loop("b", 9)
    restarts.keep_only({"b"})
    assert not restarts.is_loop("a", 9)
