"""How fast apps' instances are READY whose resource manager is done at once: CreateAppInst to the
end of its stream, beside a bare workflow with one activity and one signal."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from time import perf_counter, process_time
from typing import Any

import grpc.aio
from temporalio.client import Client

from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.app_inst_pb2_grpc import AppInstApiStub
from tests.bench.accepting import fresh, postgres
from tests.bench.edge import edge_of, instances
from tests.bench.errand import BareErrand
from tests.bench.figures import Figure, Target, figure, percentile, ratio
from tests.bench.place import PYTHON, Place, place

QUEUE = "bare-errand"
CALLERS = 32
PLACES = 16
EACH = 320
"""Made by ours and by the bare workflow by turns, so many each time."""

WARMING = 1
LEAST_TIMES = Target(least=0.7)
DONE = "Created successfully"


@dataclass(frozen=True)
class Run:
    """Some of a kind made, by callers who each had one at a time."""

    seconds: float
    took: list[float]
    cpu: dict[str, float]
    """Seconds of processor by process, those of the bench with its callers among them."""

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    @property
    def cpu_ms(self) -> float:
        """For one of them, of all processes."""
        return 1000 * sum(self.cpu.values()) / len(self.took)


async def measure(repeats: int) -> list[Figure]:
    figures = []
    async with postgres() as server:
        for kind in ("SQLite", "PostgreSQL"):
            database = "" if kind == "SQLite" else await fresh(server)
            async with place(database=database) as site:
                figures += await _measured(site, kind, repeats)
    return figures


async def _measured(site: Place, kind: str, repeats: int) -> list[Figure]:
    worker = await site.start("bare", PYTHON, "-m", "tests.bench.errand_worker", QUEUE)
    await worker.told("bare worker ready")
    bare = Bare(await Client.connect(site.temporal))
    apps = EACH * (repeats + WARMING) // PLACES
    async with (
        edge_of(site.grpc, places=PLACES, apps=apps),
        grpc.aio.insecure_channel(site.grpc) as channel,
    ):
        ours = Ours(channel, instances(PLACES))
        rounds = [
            (
                await together(site, ours.make, each=EACH, callers=CALLERS),
                await together(site, bare.make, each=EACH, callers=CALLERS),
            )
            for _ in range(repeats + WARMING)
        ][WARMING:]
    made, errands = zip(*rounds, strict=True)
    who = f"{CALLERS} callers, {kind}"
    return [
        ratio(
            f"CreateAppInst / bare workflow, {who}",
            [run.rate for run in made],
            [run.rate for run in errands],
            LEAST_TIMES,
        ),
        ratio(
            f"processor, bare / CreateAppInst, {kind}",
            [run.cpu_ms for run in errands],
            [run.cpu_ms for run in made],
        ),
        *_told(f"CreateAppInst, {who}", made),
        *_told(f"bare workflow, {who}", errands),
    ]


def _told(name: str, runs: tuple[Run, ...]) -> list[Figure]:
    return [
        figure(name, "/s", *(run.rate for run in runs)),
        figure(f"{name}: p50", "ms", *(1000 * percentile(run.took, 0.5) for run in runs)),
        figure(f"{name}: p99", "ms", *(1000 * percentile(run.took, 0.99) for run in runs)),
        *(
            figure(
                f"{name}: {part}",
                "ms each",
                *(1000 * run.cpu[part] / len(run.took) for run in runs),
            )
            for part in runs[0].cpu
        ),
    ]


class Ours:
    """Each to the end of its stream, which has to be the good one."""

    def __init__(self, channel: grpc.aio.Channel, instances: Iterator[AppInst]) -> None:
        self._stub: Any = AppInstApiStub(channel)
        self._instances = instances

    async def make(self) -> None:
        said = [result.message async for result in self._stub.CreateAppInst(next(self._instances))]
        if said[-1] != DONE:
            raise RuntimeError(f"an instance ended with {said}")


class Bare:
    """Each told as soon as it has begun."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names = (f"errand-{number}" for number in count())

    async def make(self) -> None:
        name = next(self._names)
        handle = await self._client.start_workflow(BareErrand.run, name, id=name, task_queue=QUEUE)
        await handle.signal(BareErrand.tell)
        await handle.result()


async def together(
    site: Place, make: Callable[[], Awaitable[None]], *, each: int, callers: int
) -> Run:
    """Have so many made, by so many callers at once."""
    took: list[float] = []
    turns = iter(range(each))

    async def caller() -> None:
        for _ in turns:
            began = perf_counter()
            await make()
            took.append(perf_counter() - began)

    cpu, own, began = site.cpu(), process_time(), perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    seconds = perf_counter() - began
    return Run(seconds, took, {**site.cpu(since=cpu), "bench": process_time() - own})
