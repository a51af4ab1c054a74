"""What it costs to watch clusters that nothing happens to, and how that grows with their number.

One cluster is made on the simulated site. All others are rows that lead to the same API, host and
MAAS, each with credentials, connections and a monitor of its own: what watches them cannot tell.
Tours are shorter, and hosts logged into more often, than by default: five times, so that the window
holds some of each. What an installation pays for that is less."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter
from uuid import uuid4

import grpc.aio
import psutil
from sqlalchemy import func, inspect, select

from domain.operation import Stage
from domain.ports import kubeconfig, ssh_key
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from store.engine import Database
from store.rows import ClusterRow, OperationRow, Row, SlotRow, WatchRow
from store.sealing import Seal
from store.secrets import Secrets
from tests.bench.creation import names
from tests.bench.figures import Figure, figure
from tests.bench.place import Place, place

SIZES = (10, 100, 1000)
TOUR_SECONDS = 60
WINDOW_SECONDS = 120.0
SETTLE_SECONDS = 240.0
LOOK_SECONDS = 0.5
MINUTE = 60.0

WATCHING = ("worker", "temporal", "site")


@dataclass(frozen=True)
class Run:
    clusters: int
    tours: float
    """That ended and were written down, per minute."""
    writes: int
    """Rows of clusters and slots that were written in the window."""
    rows: int
    """That watching needs, for all of them."""
    memory: dict[str, float]
    """What each process had in the end, in MB."""
    cpu: dict[str, float]
    """Seconds of processor in a minute."""


async def measure(_repeats: int) -> list[Figure]:
    """Each size once: its window is long enough to be an average already."""
    runs = []
    for clusters in SIZES:
        async with place(machines=2, worker=False) as site:
            for often in ("TOUR_SECONDS", "INSPECT_SECONDS"):
                site.environment[f"WINDLASS_KAAS__{often}"] = str(TOUR_SECONDS)
            await site.start_worker()
            runs.append(await _run(site, clusters))
    figures = []
    for run in runs:
        of = f"{run.clusters} idle clusters"
        figures += [
            figure(f"{of}: tours of {TOUR_SECONDS} s", "/min", run.tours),
            figure(f"{of}: rows of clusters and slots written", "", run.writes),
            figure(f"{of}: rows kept of them", "", run.rows),
            *(figure(f"{of}: memory, {name}", "MB", run.memory[name]) for name in WATCHING),
            *(figure(f"{of}: processor, {name}", "s/min", run.cpu[name]) for name in WATCHING),
        ]
    return figures


async def _run(site: Place, clusters: int) -> Run:
    await _made(site)
    database = Database(site.settings.database)
    try:
        await _copied(site, database, clusters - 1)
        await _all_confirmed(database, clusters)
        cpu, began = site.cpu(), perf_counter()
        since = datetime.now(UTC)
        tours = await _tours(database)
        minutes = (perf_counter() - began) / MINUTE
        used = site.cpu(since=cpu)
        return Run(
            clusters=clusters,
            tours=tours / minutes,
            writes=await _written(database, since),
            rows=await _count(database, WatchRow),
            memory={name: _memory(site, name) for name in WATCHING},
            cpu={name: used[name] / minutes for name in WATCHING},
        )
    finally:
        await database.close()


async def _made(site: Place) -> None:
    """One cluster of one machine, whole."""
    async with grpc.aio.insecure_channel(site.grpc) as channel:
        stub = ClusterStub(channel)
        name = next(names)
        control_plane = pb.ControlPlaneMachineSpec(count=1)
        await stub.CreateCluster(pb.CreateClusterMsg(name=name, control_plane_nodes=control_plane))
        asked = pb.GetClusterMsg(name=name)
        async with asyncio.timeout(SETTLE_SECONDS):
            while (await stub.GetCluster(asked)).cluster.status != pb.RUNNING:  # noqa: ASYNC110 - rows
                await asyncio.sleep(LOOK_SECONDS)


async def _copied(site: Place, database: Database, copies: int) -> None:
    """Rows as a creation leaves them, for clusters that look just like the one there is. MAAS is
    asked after none of their machines, which are the one's: only its list is fetched."""
    vault = Secrets(database, Seal.from_file(site.settings.key_file))
    async with database.session(writes=False) as session:
        cluster = (await session.scalars(select(ClusterRow))).one()
        operation = await session.get_one(OperationRow, cluster.operation)
        [slot] = await session.scalars(select(SlotRow).where(SlotRow.cluster == cluster.uid))
        kept = [_values(row) for row in (cluster, operation, slot)]
        uid, planned = cluster.uid, slot.slot
    secrets = [await vault.open(kubeconfig(uid)), await vault.open(ssh_key(uid))]
    for number in range(copies):
        copy, id = str(uuid4()), str(uuid4())
        text = planned.replace(uid, copy)
        async with database.session(writes=True) as session:
            session.add(
                ClusterRow(**{**kept[0], "uid": copy, "name": f"idle-{number}", "operation": id})
            )
            done = {"stage": Stage.SUCCEEDED, "subject": f"cluster/idle-{number}", "cluster": copy}
            session.add(OperationRow(**{**kept[1], "id": id, **done}))
            session.add(SlotRow(**{**kept[2], "cluster": copy, "slot": text, "system_id": ""}))
        for reference, secret in zip((kubeconfig(copy), ssh_key(copy)), secrets, strict=True):
            await vault.keep(reference, secret)


def _values(row: Row) -> dict[str, object]:
    return {column.key: getattr(row, column.key) for column in inspect(type(row)).column_attrs}


async def _all_confirmed(database: Database, clusters: int) -> None:
    """Until every cluster was looked at and found as its rows say."""
    confirmed = WatchRow.confirmed.is_not(None)
    async with asyncio.timeout(SETTLE_SECONDS + TOUR_SECONDS):
        while await _count(database, WatchRow, confirmed) < clusters:  # noqa: ASYNC110 - rows
            await asyncio.sleep(LOOK_SECONDS)


async def _tours(database: Database) -> int:
    """How many tours are written down while the window lasts."""
    until = datetime.now(UTC) + timedelta(seconds=WINDOW_SECONDS)
    before, tours = await _heard(database), 0
    while datetime.now(UTC) < until:
        await asyncio.sleep(LOOK_SECONDS)
        now = await _heard(database)
        tours += sum(before[uid] != moment for uid, moment in now.items())
        before = now
    return tours


async def _heard(database: Database) -> dict[str, datetime]:
    async with database.session(writes=False) as session:
        rows = await session.execute(select(WatchRow.cluster, WatchRow.heard))
        return {row.cluster: row.heard for row in rows}


async def _written(database: Database, since: datetime) -> int:
    found: Counter[str] = Counter()
    for table in (ClusterRow, SlotRow):
        found[table.__tablename__] = await _count(database, table, table.changed > since)
    return found.total()


async def _count(database: Database, table: type[Row], *where: object) -> int:
    async with database.session(writes=False) as session:
        query = select(func.count()).select_from(table).where(*where)  # type: ignore[arg-type]
        return int(await session.scalar(query) or 0)


def _memory(site: Place, name: str) -> float:
    return float(psutil.Process(site.parts[name].process.pid).memory_info().rss / 1e6)
