"""How fast the statistics of Ceph are, and how often Ceph is asked for them meanwhile."""

import asyncio

import grpc.aio
import httpx2

from protos.gen.koor.api.services.stats import stats_pb2 as pb
from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceStub
from tests.bench.callers import load, write
from tests.bench.figures import Figure, Target, figure
from tests.bench.place import PYTHON, READY_SECONDS, Place, place

METHOD = "stats.StatsService/GetClusterStats"
LOOK = "ceph GET health/full"
CALLERS = 32
EVERY = 15.0
"""Seconds between two looks, as they are unless somebody sets it."""

INTERVALS = 2
LEAST_RATE = Target(least=1000)
MOST_LOOKS = Target(most=1.0)


async def measure(repeats: int) -> list[Figure]:
    """With a second worker, which would look too if it did not leave it to the first."""
    async with place(machines=1, ceph=True) as site, httpx2.AsyncClient(trust_env=False) as window:
        listening = [{"where": LOOK, "how": "slow", "seconds": 0, "times": 1_000_000}]
        (await window.post(f"{site.site}/site/faults", json=listening)).raise_for_status()
        await (await site.start("second", PYTHON, "worker.py")).told("worker ready")
        await _seen(site)
        request = write(site.state / "request", [pb.GetClusterStatsRequest().SerializeToString()])
        runs, looks = [], []
        for _ in range(repeats):
            before = await _looks(window, site)
            seconds = EVERY * INTERVALS
            run = await load(site, site.grpc, METHOD, request, callers=CALLERS, seconds=seconds)
            runs.append(run)
            looks.append((await _looks(window, site) - before) / (run.seconds / EVERY))
    who = f"{CALLERS} callers"
    return [
        figure(f"GetClusterStats, {who}", "/s", *(run.rate for run in runs), target=LEAST_RATE),
        figure(f"GetClusterStats, {who}: p99", "ms", *(run.worst_ms for run in runs)),
        figure("refused", "calls", *(run.refused for run in runs), target=Target(most=0)),
        figure("looks at Ceph per interval", "", *looks, target=MOST_LOOKS),
    ]


async def _seen(site: Place) -> None:
    """Return once there is something to tell."""
    async with asyncio.timeout(READY_SECONDS), grpc.aio.insecure_channel(site.grpc) as channel:
        ask = StatsServiceStub(channel).GetClusterStats
        while True:
            try:
                await ask(pb.GetClusterStatsRequest())
                return
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.1)


async def _looks(window: httpx2.AsyncClient, site: Place) -> int:
    [listening] = (await window.get(f"{site.site}/site/faults")).json()
    return len(listening["fired"])
