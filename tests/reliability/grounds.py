"""Grounds for random histories: real rows, a real Temporal server, a worker in a process of its own
that may be killed at any moment, and a world in memory."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from domain.cluster import ClusterOrder, Limits, PoolOrder
from domain.errors import Conflict, NotFound
from domain.operation import NUDGE, Ask, Operation, OperationId
from domain.pools import PoolSize
from domain.releases import CATALOGUE as RELEASES
from domain.repairs import Prudence
from sim.world import MemoryWorld
from store.access_rows import AuditRow
from store.clusters import Building, Clusters
from store.engine import Database
from store.operations import Operations
from store.pools import Pools, Terms
from store.repairs import Repairs
from store.rows import Row
from store.sealing import Seal
from store.secrets import Secrets
from store.steering import Steering
from store.upgrades import Upgrades
from tests.reliability.far_world import World
from tests.reliability.hurry import TASK
from tests.reliability.program import ROOT
from workflows.catalogue import CATALOGUE

MACHINES = 60
"""More than all clusters of a history can hold: nothing waits for a machine for ever."""

TERMS = Terms(limits=Limits(), building=Building(domain="grounds.test", drain_seconds=5))
NEWEST = 200


class Grounds:
    """Where histories happen, one after the other. What one leaves behind is the next one's
    trouble, so whoever finds anything wrong asks for fresh grounds."""

    def __init__(self, folder: Path, database_url: str, client: Client) -> None:
        database = Database(database_url)
        self.database, self.client = database, client
        self.key_file = folder / "seal.key"
        self.world = World(MemoryWorld())
        self.clusters = Clusters(database, Secrets(database, Seal.from_file(self.key_file)))
        self.pools, self.operations = Pools(database), Operations(database)
        self.steering, self.upgrades = Steering(database), Upgrades(database)
        self.repairs = Repairs(database, Prudence())
        self._folder, self._database_url = folder, database_url
        self._prefix = ""
        self._places = count(1)
        self._served = AsyncExitStack()
        self._nursery: asyncio.subprocess.Process | None = None
        self._worker = 0

    @classmethod
    async def opened(cls, folder: Path, database_url: str, temporal: str) -> "Grounds":
        """On a database whose rows are theirs alone, and a Temporal server."""
        client = await Client.connect(temporal, data_converter=pydantic_data_converter)
        return cls(folder, database_url, client)

    async def freshen(self) -> None:
        """No rows, a world that nobody has touched, queues that nobody has used, a new worker."""
        self._end_worker()
        async with self.database.session(writes=True) as session:
            for table in Row.metadata.sorted_tables:
                if table.name != AuditRow.__tablename__:  # it only grows
                    await session.execute(table.delete())
        await self._served.aclose()
        self.world = World(MemoryWorld.of(MACHINES))
        self._prefix = f"{uuid4().hex[:8]}-"
        socket = self._folder / f"world-{next(self._places)}"
        await self._served.enter_async_context(self.world.served(socket))
        self._told = {
            "database_url": self._database_url,
            "key_file": str(self.key_file),
            "temporal": self.client.service_client.config.target_host,
            "prefix": self._prefix,
            "world": str(socket),
        }
        await self._start_worker()

    async def kill_worker(self) -> None:
        """SIGKILL, and another one takes its place."""
        self._end_worker()
        await self._start_worker()

    async def close(self) -> None:
        self._end_worker()
        await self._served.aclose()
        if self._nursery is not None:
            self._nursery.kill()
            await self._nursery.wait()
        await self.database.close()

    def _end_worker(self) -> None:
        if self._worker:
            with suppress(ProcessLookupError):
                os.kill(self._worker, signal.SIGKILL)
            self._worker = 0

    async def _start_worker(self) -> None:
        if self._nursery is None:
            self._nursery = await self._opened_nursery()
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(json.dumps(self._told).encode() + b"\n")
        self._worker = int(await self._nursery.stdout.readline())

    async def _opened_nursery(self) -> asyncio.subprocess.Process:
        with (self._folder / "worker.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                str(Path(__file__).with_name("nursery.py")),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )

    async def create(self, name: str, control_planes: int, workers: int) -> Operation:
        order = ClusterOrder(
            name=name,
            control_plane=PoolOrder(name="control-plane", count=control_planes),
            pools=(PoolOrder(name="w", count=workers),),
        )
        release, ask = RELEASES.choose(""), Ask(method="create")
        return await self.begun(
            await self.clusters.request_create(order, release, TERMS.building, ask)
        )

    async def scale(self, name: str, pool: str, size: int) -> Operation | None:
        sizes, ask = [PoolSize(name=pool, count=size)], Ask(method="scale")
        asked = await self.pools.request_scale(name, sizes, TERMS, ask)
        return await self.begun(asked) if asked else None

    async def add(self, name: str, pool: str, size: int) -> Operation:
        orders, ask = [PoolOrder(name=pool, count=size)], Ask(method="add")
        return await self.begun(await self.pools.request_add(name, orders, TERMS, ask))

    async def drop(self, name: str, pool: str) -> Operation:
        ask = Ask(method="drop")
        return await self.begun(await self.pools.request_drop(name, [pool], TERMS, ask))

    async def upgrade(self, name: str, version: str) -> Operation:
        ask, building = Ask(method="upgrade"), TERMS.building
        asked = await self.upgrades.request(name, version, RELEASES, building, ask)
        return await self.begun(asked)

    async def repair(self, name: str) -> Operation | None:
        asked = await self.repairs.request(name, (), Ask(method="repair"))
        return await self.begun(asked) if asked else None

    async def delete(self, name: str, *, force: bool = False) -> Operation:
        ask = Ask(method="delete", force=force)
        deleted = await self.clusters.request_delete(name, ask)
        return await self.begun(deleted.operation)

    async def cancel(self, operation: OperationId) -> None:
        """Call an operation off, as the API does: in the row first, then in Temporal."""
        await self.steering.cancel(operation, "ann")
        with suppress(RPCError):  # it has just ended
            await self.client.get_workflow_handle(f"op-{operation}").cancel()

    async def pause(self, operation: OperationId, seconds: float) -> None:
        """Hold an operation for a while, unless it is over or being undone: then or by then."""
        for wish in (self.steering.pause, self.steering.resume):
            with suppress(Conflict):
                await wish(operation, "ann")
            with suppress(RPCError):  # it has just ended
                await self.client.get_workflow_handle(f"op-{operation}").signal(NUDGE)
            await asyncio.sleep(seconds)

    async def begun(self, operation: Operation) -> Operation:
        """Its workflow started, unless it has been."""
        if operation.started is None:
            with suppress(WorkflowAlreadyStartedError):
                await self.client.start_workflow(
                    CATALOGUE[operation.kind].run,
                    operation.id,
                    id=f"op-{operation.id}",
                    task_queue=f"{self._prefix}workflows",
                    task_timeout=TASK,
                )
        return operation

    def pick_up(self, uid: str, operation: Operation) -> int:
        """What an operator does once a delete was forced: give back what it says it left. How much
        that was."""
        world, left = self.world.memory, operation.left_behind
        agents, named = {each.agent_name for each in left}, {each.name for each in left}
        swept = operation.subject.removeprefix("cluster/") not in named
        for metal in [each for each in world.machines if each.cluster == uid]:
            if metal.owner in agents or not swept:
                world.give_back(metal)
        for name in named & world.names.keys():
            del world.names[name]
        return len(left)

    async def places(self, name: str) -> Counter[str]:
        """How many places each pool of a cluster has, with a node or without."""
        try:
            nodes = await self.clusters.nodes(name)
        except NotFound:
            return Counter()
        return Counter(state.slot.pool for state in nodes.slots)

    async def versions(self, name: str) -> tuple[str, str]:
        """Which version a cluster says it is of, and on its way to."""
        all_there = await self.clusters.all()
        there = {cluster.name: (cluster.version, cluster.pending) for cluster in all_there}
        return there.get(name, ("", ""))

    async def under_way(self, name: str = "") -> Sequence[Operation]:
        """The operations that have not ended, on one cluster or at all."""
        subject = f"cluster/{name}" if name else ""
        latest = await self.operations.page(size=NEWEST, subject=subject)
        return [operation for operation in latest if operation.ended is None]
