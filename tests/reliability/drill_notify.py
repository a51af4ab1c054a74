"""A thousand resource managers at one API process; ten thousand records, and as many instances on
one cloudlet; a network that goes quiet.

No worker runs and nothing is carried out: these drills are about who is told what, and when."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import grpc.aio
import httpx2

from agent.crm.crm import Crm
from api.edge import convert
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.notice_pb2 import VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from sim.crm import practice
from sim.faults import Faults
from store.engine import Database
from store.shelf import Shelf
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.reliability.crowd import PATIENCE_SECONDS, Cable, Crowd
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome, say
from tests.reliability.returning import returned, write
from tests.support.load import limit

MANAGERS, OBJECTS, CHANGES, DEAF = 1000, 10_000, 20, 5

SILENCES_SECONDS = (5.0, 30.0, 90.0, 300.0)
BACK_SECONDS = 120.0
"""Within this a resource manager is back after the longest: each end has to notice first."""


async def notify(seed: int) -> Outcome:
    """As many as there may be, some of whom do not read."""
    async with crowded("notify", seed) as (there, crowd):
        database = Database(there.database)
        began = monotonic()
        await describe(Shelf(database), OBJECTS)
        await database.close()
        say(f"described after {monotonic() - began:.0f} s")
        async with grpc.aio.insecure_channel(there.grpc) as channel:
            deaf = [NotifyApiStub(channel).StreamNotice() for _ in range(DEAF)]
            for call in deaf:
                wanted = ["edgeproto.Cloudlet"]
                await call.write(Notice(action=VERSION, version=1, want_objs=wanted))
            connected = await crowd.connect(MANAGERS)
            delays = [each for n in range(CHANGES) for each in await crowd.told(f"change-{n}")]
            again = monotonic()
            whole = Peer(channel)
            async with limit(PATIENCE_SECONDS):
                await whole.until(lambda: len(whole.names("Cloudlet")) == OBJECTS, PATIENCE_SECONDS)
            synced = monotonic() - again
            states, known = await crowd.states(), len(whole.names("Flavor"))
            memory = await asyncio.to_thread(_memory_bytes, f"{there.http}/metrics")
            await whole.lose()
            for call in deaf:
                call.cancel()
            back = await returned(crowd.edge, there.database, there.grpc, OBJECTS)
    found = list(back.broken)
    if states != {CLOUDLET_STATE_READY}:
        found.append(f"states are {states}")
    if known != CHANGES:
        found.append(f"{known} flavors are known, of {CHANGES}")
    there.keeps_logs = bool(found)
    delays.sort()
    figures = {
        "seed": seed,
        "managers": MANAGERS,
        "records": OBJECTS,
        "connected_seconds": round(connected, 1),
        "delivery_p50_ms": round(delays[len(delays) // 2] * 1000),
        "delivery_p99_ms": round(delays[len(delays) * 99 // 100] * 1000),
        "synced_seconds": round(synced, 2),
        "instances": OBJECTS,
        "instances_told_seconds": round(back.told_seconds, 2),
        "instances_back_seconds": round(back.back_seconds, 2),
        "memory_mb": round(memory / 1e6),
    }
    return Outcome("notify", figures, found)


async def partitions(seed: int) -> Outcome:
    """One of two resource managers is behind a network that goes quiet, for longer and longer."""
    found, back = [], {}
    async with crowded("partitions", seed) as (there, crowd):
        await crowd.describe(2)
        async with Cable.laid(there.grpc) as cable:
            near = practice(stubs.cloudlet("place-0").key, [there.grpc], Faults())
            far = practice(stubs.cloudlet("place-1").key, [cable.address], Faults())
            managing = [asyncio.create_task(crm.run()) for crm in (near, far)]
            await _until_ready(crowd, PATIENCE_SECONDS)
            for seconds in SILENCES_SECONDS:
                say(f"silence for {seconds:g} s")
                name = f"after-{seconds:g}"
                with cable.cut():
                    await crowd.edge("CreateFlavor", stubs.flavor(name))
                    await asyncio.sleep(seconds)
                    if near.replica.flavor(stubs.flavor(name).key) is None:
                        found.append(f"{name}: the near one was not told")
                began = monotonic()
                try:
                    await _until_told(far, name, BACK_SECONDS)
                    await _until_ready(crowd, BACK_SECONDS)
                except TimeoutError:
                    found.append(f"{name}: the far one is not back after {BACK_SECONDS:g} s")
                back[f"back_after_{seconds:g}_seconds"] = round(monotonic() - began, 1)
            for task in managing:
                task.cancel()
            await asyncio.wait(managing)
    there.keeps_logs = bool(found)
    return Outcome("partitions", {"seed": seed, **back}, found)


@asynccontextmanager
async def crowded(name: str, seed: int) -> AsyncIterator[tuple[Installation, Crowd]]:
    """An API process on its own, and nobody connected yet."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("api", machines=0, draw=draw) as there:
        say(f"{name}: at {there.grpc}")
        async with grpc.aio.insecure_channel(there.grpc) as channel:
            crowd = Crowd(Edge(channel), there.grpc)
            yield there, crowd
            await crowd.close()


async def describe(shelf: Shelf, cloudlets: int) -> None:
    """So many cloudlets, past the door."""
    places = (stubs.cloudlet(f"place-{number}") for number in range(cloudlets))
    await write(shelf, map(convert.cloudlet_record, places))


def _memory_bytes(url: str) -> float:
    text = httpx2.get(url, trust_env=False, timeout=20).text
    [line] = [each for each in text.splitlines() if each.startswith("process_resident")]
    return float(line.split()[1])


async def _until_told(crm: Crm, flavor: str, seconds: float) -> None:
    async with limit(seconds):
        while True:
            if crm.replica.flavor(stubs.flavor(flavor).key) is not None:
                return
            await asyncio.sleep(0.05)


async def _until_ready(crowd: Crowd, seconds: float) -> None:
    async with limit(seconds):
        while True:
            infos = await crowd.edge("ShowCloudletInfo", CloudletInfo())
            if [each.state for each in infos] == [CLOUDLET_STATE_READY] * 2:
                return
            await asyncio.sleep(0.05)
