"""How many instances are given their places, each durably, by schedulers that do not know of each
other, and how many rows of the same kind a bare driver writes meanwhile."""

import asyncio
import multiprocessing
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from time import perf_counter, process_time
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
from tests.bench.figures import Figure, Target, figure, percentile, ratio

NODES = 1000
SCHEDULERS = 8
INSTANCES = 1600
AT_ONCE = 8
"""So many each scheduler has under way, as a worker has those of its workflows."""

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
    """Each in turn, on databases of their own that begin alike: as fast as it goes, at the rate
    that is wanted, and the same rows by a bare driver."""
    most: list[Run] = []
    steady: list[Run] = []
    bare: list[float] = []
    async with postgres() as server:
        model, uids = await _fleet(server)
        for _ in range(repeats):
            most.append(await _placed(await fresh(server, model), uids))
            steady.append(await _placed(await fresh(server, model), uids, rate=LEAST_RATE.least))
            bare.append(await _bare(await fresh(server, model), uids))
    who = f"{SCHEDULERS} schedulers, {NODES} nodes"
    over = (run.over for run in (*most, *steady))
    return [
        figure(f"placed, {who}, PostgreSQL", "/s", *(run.rate for run in most), target=LEAST_RATE),
        figure("p99 of one at that rate", "ms", *(run.worst_ms for run in most)),
        figure(
            f"p99 of one at {LEAST_RATE.least:g}/s",
            "ms",
            *(run.worst_ms for run in steady),
            target=MOST_MS,
        ),
        figure("nodes beyond their ceiling", "", *over, target=NONE_OVER),
        figure("processor time of the schedulers for one", "ms", *(run.cpu_ms for run in most)),
        figure("the same rows written by a bare driver", "/s", *bare),
        ratio("placed / written by a bare driver", [run.rate for run in most], bare),
    ]


async def _fleet(server: str) -> tuple[str, list[InstanceUid]]:
    """A database with a fleet and instances that wait for their places."""
    url = await fresh(server)
    await schema.upgrade(url)
    database = Database(url)
    uids = await _asked(database)
    await database.close()
    return url, uids


@dataclass(frozen=True)
class Run:
    rate: float
    """Placements a second."""
    worst_ms: float
    """The 99th percentile of one."""
    cpu_ms: float
    """What the schedulers used of the processors for one."""
    over: float
    """Nodes that are too full."""


async def _placed(url: str, uids: list[InstanceUid], *, rate: float | None = None) -> Run:
    """Each scheduler is a process of its own; `rate`: as many a second among all of them, instead
    of as many as they can."""
    spawned = multiprocessing.get_context("spawn")
    loop = asyncio.get_running_loop()
    pause = SCHEDULERS / rate if rate else None
    with ProcessPoolExecutor(SCHEDULERS, mp_context=spawned) as schedulers:
        ready = spawned.Manager().Barrier(SCHEDULERS)
        shares = [uids[number::SCHEDULERS] for number in range(SCHEDULERS)]
        told = [
            loop.run_in_executor(
                schedulers, schedule, url, share, ready, pause, number / SCHEDULERS
            )
            for number, share in enumerate(shares)
        ]
        runs = await asyncio.gather(*told)
    began, ended = min(run.began for run in runs), max(run.ended for run in runs)
    took = [each for run in runs for each in run.took]
    cpu = sum(run.cpu for run in runs)
    return Run(
        len(took) / (ended - began),
        percentile(took, 0.99),
        1000 * cpu / len(took),
        await _over(url),
    )


async def _over(url: str) -> float:
    """How many nodes are too full. It is an error if what is taken is not what was placed."""
    database = Database(url)
    async with database.session(writes=False) as session:
        full = (NodeRow.taken_cpu > NodeRow.room_cpu) | (NodeRow.taken_memory > NodeRow.room_memory)
        over = await session.scalar(select(func.count()).where(full)) or 0
        total = await session.scalar(select(func.sum(NodeRow.taken_cpu))) or 0
    await database.close()
    if total != INSTANCES * LIMIT.cpu:
        raise RuntimeError(f"{total} cpu is taken, and not that of {INSTANCES} instances")
    return float(over)


@dataclass(frozen=True)
class Share:
    """What one scheduler did, and when."""

    began: float
    ended: float
    took: list[float]
    """Milliseconds, each from when it was due."""
    cpu: float


def schedule(
    url: str, uids: list[InstanceUid], ready: Any, pause: float | None, turn: float
) -> Share:
    """One scheduler, once all others are there too. It begins one every so often, when it is its
    turn between two of the first one's, or has some under way all the time."""
    return uvloop.run(_schedule(url, uids, ready, pause, turn))


async def _schedule(
    url: str, uids: list[InstanceUid], ready: Any, pause: float | None, turn: float
) -> Share:
    database, took = Database(url), []
    placing = Placing(database, Fleet())

    async def place(uid: InstanceUid, due: float) -> None:
        await placing.settle(Errand(uid=uid, what=What.PLACE, turn=1))
        took.append((perf_counter() - due) * 1000)

    await place(uids[0], perf_counter())  # connects, and has every statement compiled once
    uids, took = uids[1:], []

    async def go_on() -> None:
        while waiting:
            await place(waiting.pop(), perf_counter())

    waiting = uids[::-1]
    await asyncio.to_thread(ready.wait)
    first, used = perf_counter(), process_time()
    async with asyncio.TaskGroup() as tasks:
        if pause is None:
            for _ in range(AT_ONCE):
                tasks.create_task(go_on())
        else:
            for number, uid in enumerate(uids):
                due = first + (number + turn) * pause
                await asyncio.sleep(due - perf_counter())
                tasks.create_task(place(uid, due))
    last, used = perf_counter(), process_time() - used
    await database.close()
    return Share(first, last, took, used)


async def _bare(url: str, uids: list[InstanceUid]) -> float:
    waiting = list(enumerate(uids))
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
