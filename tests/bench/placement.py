"""How many instances are given their places, each durably, by schedulers that do not know of each
other, and how many rows of the same kind a bare driver writes meanwhile."""

import asyncio
import multiprocessing
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter
from typing import Any
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
import uvloop
from sqlalchemy import func, select

from domain.errand import Errand, What
from domain.instance import InstanceSpec, InstanceUid
from domain.node import Candidate, Said
from domain.operation import Ask
from domain.placement import Amounts
from store import schema
from store.engine import Database
from store.fleet import Fleet
from store.instances import Instances, tail
from store.keys import KEY_BYTES
from store.node_rows import NodeRow
from store.nodes import Leases, Nodes
from store.placing import Placing
from store.sealing import Seal
from store.secrets import Secrets
from tests.bench.accepting import fresh, postgres
from tests.bench.figures import Figure, Target, figure

NODES = 1000
SCHEDULERS = 8
INSTANCES = 1600
LEAST_RATE = Target(least=500)
MOST_MS = Target(most=20)
NONE_OVER = Target(most=0)
ROOM = Amounts(cpu=16_000, memory=64_000, disk=500)
LIMIT = Amounts(cpu=250, memory=500, disk=1)

BARE = (
    "UPDATE nodes SET taken_cpu = taken_cpu + 250, taken_memory = taken_memory + 500, "
    "taken_disk = taken_disk + 1 WHERE id = $1 AND taken_cpu + 250 <= room_cpu RETURNING subnet",
    "INSERT INTO placements VALUES ($1, $2, $2, 1, false, NULL, 250, 500, 1, '', $3, '[]')",
    "UPDATE instances SET phase = 'scheduled', node = $1, turn = turn + 1, events = events + 1 "
    "WHERE uid = $2",
    "INSERT INTO instance_events VALUES ($2, 2, now(), 'scheduled', 'scheduled', $1, 1)",
)
"""What a reservation writes, by somebody who knows already which node it will be."""


async def measure(repeats: int) -> list[Figure]:
    runs = []
    async with postgres() as server:
        for _ in range(repeats):
            ours = await _placed(await _migrated(server))
            bare = await _bare(await _migrated(server))
            runs.append((*ours, bare))
    rates, worst, over, bare_rates = zip(*runs, strict=True)
    shares = [ours / bare for ours, bare in zip(rates, bare_rates, strict=True)]
    who = f"{SCHEDULERS} schedulers, {NODES} nodes"
    return [
        figure(f"placed, {who}, PostgreSQL", "/s", *rates, target=LEAST_RATE),
        figure("p99 of one placement", "ms", *worst, target=MOST_MS),
        figure("nodes beyond their ceiling", "", *over, target=NONE_OVER),
        figure("the same rows written by a bare driver", "/s", *bare_rates),
        figure("our share of that", "", *shares),
    ]


async def _migrated(server: str) -> str:
    url = await fresh(server)
    await schema.upgrade(url)
    return url


async def _placed(url: str) -> tuple[float, float, float]:
    """Placements a second, the 99th percentile of one in ms, and nodes that are too full. Each
    scheduler is a process of its own."""
    database = Database(url)
    uids = await _asked(database)
    spawned = multiprocessing.get_context("spawn")
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(SCHEDULERS, mp_context=spawned) as schedulers:
        ready = spawned.Manager().Barrier(SCHEDULERS)
        shares = [uids[number::SCHEDULERS] for number in range(SCHEDULERS)]
        runs = await asyncio.gather(
            *(loop.run_in_executor(schedulers, schedule, url, share, ready) for share in shares)
        )
    began, ended = min(run[0] for run in runs), max(run[1] for run in runs)
    took = sorted(each for run in runs for each in run[2])
    async with database.session(writes=False) as session:
        full = (NodeRow.taken_cpu > NodeRow.room_cpu) | (NodeRow.taken_memory > NodeRow.room_memory)
        over = await session.scalar(select(func.count()).where(full)) or 0
        total = await session.scalar(select(func.sum(NodeRow.taken_cpu))) or 0
    await database.close()
    if total != INSTANCES * LIMIT.cpu:
        raise RuntimeError(f"{total} cpu is taken, and not that of {INSTANCES} instances")
    return INSTANCES / (ended - began), took[int(len(took) * 0.99)], float(over)


def schedule(url: str, uids: list[InstanceUid], ready: Any) -> tuple[float, float, list[float]]:
    """One scheduler, once all others are there too: when it began and ended, and what each
    placement took, in ms."""

    async def place() -> tuple[float, float, list[float]]:
        database, took = Database(url, connections=1), []
        placing = Placing(database, Fleet())
        await placing.plan(InstanceSpec(id="warm", uri="builtin:idle", limit=LIMIT))
        await asyncio.to_thread(ready.wait)
        first = perf_counter()
        for uid in uids:
            began = perf_counter()
            await placing.settle(Errand(uid=uid, what=What.PLACE, turn=1))
            took.append((perf_counter() - began) * 1000)
        last = perf_counter()
        await database.close()
        return first, last, took

    return uvloop.run(place())


async def _bare(url: str) -> float:
    database = Database(url)
    waiting = list(enumerate(await _asked(database)))
    await database.close()
    address = url.replace("postgresql+asyncpg", "postgresql")

    async def write() -> None:
        connection: Any = await asyncpg.connect(address)
        while waiting:
            number, uid = waiting.pop()
            node, ip = f"n{number % NODES:04}", f"10.0.0.{number // NODES}"
            async with connection.transaction():
                await connection.fetchrow(BARE[0], node)
                await connection.execute(BARE[1], node, uid, ip)
                await connection.execute(BARE[2], node, uid)
                await connection.execute(BARE[3], node, uid)
        await connection.close()

    return INSTANCES / await _timed(write)


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = perf_counter()
    await asyncio.gather(*(work() for _ in range(SCHEDULERS)))
    return perf_counter() - began


async def _asked(database: Database) -> list[InstanceUid]:
    """A fleet, and instances that wait for their places."""
    nodes = Nodes(database, Leases())
    for number in range(NODES):
        id = f"n{number:04}"
        await nodes.register(Candidate(id=id, address="nowhere"))
        await nodes.hear(id, Said.RUNNING, "", ROOM, Amounts())
    following = tail(database)
    instances = Instances(database, following, Secrets(database, Seal(os.urandom(KEY_BYTES))))
    uids = []
    for _ in range(INSTANCES):
        spec = InstanceSpec(id=str(uuid4()), uri="builtin:idle", limit=LIMIT)
        uids.append((await instances.request_create(spec, Ask(method="bench"))).uid)
    await following.close()
    return uids
