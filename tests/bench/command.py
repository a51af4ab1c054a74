"""How long people wait for the command itself."""

import asyncio
from asyncio.subprocess import DEVNULL
from pathlib import Path
from time import perf_counter

import grpc.aio

from protos.gen.kaas.api_pb2_grpc import ClusterStub
from tests.bench.creation import MACHINES, Ours
from tests.bench.figures import Figure, Target, figure
from tests.bench.place import PYTHON, Place, place

RUNS = 9


async def measure(_repeats: int) -> list[Figure]:
    """Each time a process of its own, with the modules compiled and the cluster there."""
    async with place(machines=MACHINES) as site:
        client = await site.client()
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            made = await Ours(site, client, ClusterStub(channel)).make()
        told = [("--help", 150), (f"cluster get {made.name}", 250), ("version", None)]
        return [await _timed(site, words, most) for words, most in told]


async def _timed(site: Place, words: str, most_ms: float | None) -> Figure:
    await _seconds(site, words)
    took = [1000 * await _seconds(site, words) for _ in range(RUNS)]
    target = Target(most=most_ms) if most_ms else None
    return figure(f"windlass {words}", "ms", *took, target=target)


async def _seconds(site: Place, words: str) -> float:
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        str(Path(PYTHON).with_name("windlass")),
        *words.split(),
        env={**site.environment, "WINDLASS_ADDRESS": site.grpc},
        stdin=DEVNULL,
        stdout=DEVNULL,
    )
    if code := await process.wait():
        raise RuntimeError(f"windlass {words} exited with {code}")
    return perf_counter() - began
