"""How fast ShowAppInst shows all there is, beside a server that does nothing but stream the same
bytes, and how much memory that takes meanwhile."""

import asyncio
from contextlib import suppress
from statistics import median

import grpc.aio

from tests.bench.accepting import fresh, postgres
from tests.bench.appinsts import Ours
from tests.bench.callers import write
from tests.bench.edge import edge_of, instances
from tests.bench.figures import Figure, Target, figure, ratio
from tests.bench.place import PYTHON, Place, place
from tests.bench.reader import messages, read
from tests.bench.stocked import stock

METHOD = "edgeproto.AppInstApi/ShowAppInst"
INSTANCES = 100_000
PLACES = 100
LEAST_TIMES = Target(least=0.6)
MOST_MB = Target(most=10)


async def measure(repeats: int) -> list[Figure]:
    figures = []
    async with postgres() as server:
        for kind in ("SQLite", "PostgreSQL"):
            database = "" if kind == "SQLite" else await fresh(server)
            async with place(database=database) as site:
                await stocked(site, INSTANCES)
                await site.end("worker", "temporal")
                figures += await _measured(site, kind, repeats)
    return figures


async def stocked(site: Place, count: int) -> None:
    """Have so many instances there."""
    async with (
        edge_of(site.grpc, places=PLACES, apps=count // PLACES),
        grpc.aio.insecure_channel(site.grpc) as channel,
    ):
        await Ours(channel, instances(PLACES)).make()
    await stock(site.settings.database, count, places=PLACES)


async def _measured(site: Place, kind: str, repeats: int) -> list[Figure]:
    """By turns, each read by a process of its own; but for the very first time, before the API has
    shown any of them, which is told apart."""
    empty = site.parts["api"].memory_bytes()
    first = await read(site, site.grpc, METHOD)
    said = write(site.state / "said", await messages(site.grpc, METHOD))
    echo = await site.start("echo", PYTHON, "-m", "tests.bench.echo", str(said), "--streams")
    address = (await echo.told("ready"))["grpc"]
    api = site.parts["api"]
    ours, echoed, memory, cpu = [], [], [], []
    for _ in range(repeats):
        before, used = api.memory_bytes(), site.cpu()
        api.peak_bytes = 0
        watching = asyncio.create_task(site.sample())
        ours.append(await read(site, site.grpc, METHOD))
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        memory.append((before, api.peak_bytes, api.memory_bytes()))
        echoed.append(await read(site, address, METHOD))
        cpu.append(site.cpu(since=used))
    before_, most, after = zip(*([each / 1e6 for each in run] for run in memory), strict=True)
    rates = [run.rate for run in ours]
    return [
        ratio(
            f"ShowAppInst / raw stream, {INSTANCES:,} instances, {kind}",
            rates,
            [run.rate for run in echoed],
            LEAST_TIMES,
        ),
        figure(
            f"ShowAppInst for the first time / raw stream, {kind}",
            "x",
            first.rate / median(run.rate for run in echoed),
        ),
        ratio(
            f"processor, raw stream / ShowAppInst, {kind}",
            [run["echo"] for run in cpu],
            [run["api"] for run in cpu],
        ),
        figure(f"ShowAppInst, {kind}", "/s", *rates),
        figure(f"raw stream of the same bytes, {kind}", "/s", *(run.rate for run in echoed)),
        figure(f"the stream, {kind}", "MB", ours[0].bytes / 1e6),
        figure(f"memory of the API before any, {kind}", "MB", empty / 1e6),
        figure(f"memory of the API before, {kind}", "MB", *before_),
        figure(f"memory of the API at most, {kind}", "MB", *most),
        figure(f"memory of the API after, {kind}", "MB", *after),
        figure(
            f"memory more than before, at most, {kind}",
            "MB",
            *(peak - first for peak, first in zip(most, before_, strict=True)),
            target=MOST_MB,
        ),
    ]
