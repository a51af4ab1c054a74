"""A hundred clusters of three machines at once."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from time import perf_counter

import grpc.aio

from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from tests.bench.creation import names, ordered
from tests.bench.figures import Figure, figure
from tests.bench.place import Place, place

CLUSTERS = 100
MACHINES = 320
LOOK_SECONDS = 0.2
MOST_SECONDS = 300
MOST_RUNS = 3


@dataclass(frozen=True)
class Run:
    accepted: float
    """Seconds until the last was accepted."""
    seconds: float
    """Until none was being built any more."""
    running: int
    peaks: dict[str, float]
    """The most memory each process had, in MB."""
    cpu: dict[str, float]


async def measure(repeats: int) -> list[Figure]:
    """The heaviest of all, so it is run fewer times."""
    runs = []
    for _ in range(min(repeats, MOST_RUNS)):
        async with place(machines=MACHINES) as site:
            watching = asyncio.create_task(site.sample())
            runs.append(await _run(site))
            watching.cancel()
    peaks = [
        figure(f"peak memory, {part}", "MB", *(run.peaks[part] for run in runs))
        for part in runs[0].peaks
    ]
    cpu = [
        figure(f"processor, {part}", "s", *(run.cpu[part] for run in runs)) for part in runs[0].cpu
    ]
    return [
        figure(f"{CLUSTERS} clusters of 3, from the first call", "s", *(r.seconds for r in runs)),
        figure("all accepted", "s", *(run.accepted for run in runs)),
        figure("operations", "/s", *(CLUSTERS / run.seconds for run in runs)),
        figure("not RUNNING in the end", "", *(CLUSTERS - run.running for run in runs)),
        *peaks,
        *cpu,
    ]


async def _run(site: Place) -> Run:
    async with grpc.aio.insecure_channel(site.grpc) as channel:
        stub = ClusterStub(channel)
        cpu, began = site.cpu(), perf_counter()
        await asyncio.gather(*(stub.CreateCluster(ordered(next(names))) for _ in range(CLUSTERS)))
        accepted = perf_counter() - began
        async with asyncio.timeout(MOST_SECONDS):
            while (standing := await _standing(stub))[pb.PROVISIONING]:  # noqa: ASYNC110 - rows
                await asyncio.sleep(LOOK_SECONDS)
        seconds = perf_counter() - began
    peaks = {name: part.peak_bytes / 1e6 for name, part in site.parts.items()}
    return Run(accepted, seconds, standing[pb.RUNNING], peaks, site.cpu(since=cpu))


async def _standing(stub: ClusterStub) -> Counter[int]:
    reply = await stub.GetClusterList(pb.GetClusterListMsg())
    return Counter(cluster.status for cluster in reply.clusters)
