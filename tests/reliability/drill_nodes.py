"""Instances are made, stopped and unmade while API and worker die: in the end no node has a copy
that nobody wants, and nothing is reserved.

The nodes live in the drill itself, so it sees all that they were told."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from time import monotonic

import grpc
import grpc.aio
from sqlalchemy import func, select

from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from store.engine import Database
from store.node_rows import HostPortRow, InstanceRow, NodeRow, PlacementRow
from tests.agents import BEAT_SECONDS, Host
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome
from tests.reliability.program import Program

VICTIMS = ("api", "worker-1")
INSTANCES = 40
NODES = 3
KILLS = 3
PAUSE_SECONDS = 0.5
SETTLE_SECONDS = 120.0
"""What a killed worker's hands take to be found dead, and what was missed to be swept up."""

AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)


class Faithful(Host):
    """A node that comes back whenever it was not heard."""

    async def _say(self) -> None:
        while True:
            await super()._say()
            await asyncio.sleep(BEAT_SECONDS)
            with suppress(grpc.aio.AioRpcError):
                await self.register()


async def on_sqlite(seed: int) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("temporal", "site", "api", "worker-1", machines=1, draw=draw) as there:
        return await Fire(there, draw, seed).burn()


class Fire:
    """One run of the drill."""

    def __init__(self, there: Installation, draw: random.Random, seed: int) -> None:
        self._there, self._draw, self._seed = there, draw, seed
        self._hosts = [Faithful(f"n{number}", there.grpc, cpu=1000) for number in range(NODES)]
        self._again: Counter[str] = Counter()
        self._doubled: set[str] = set()

    async def burn(self) -> Outcome:
        began = monotonic()
        for host in self._hosts:
            await host.up()
        watching = asyncio.create_task(self._watch())
        victims = [self._there.programs[name] for name in VICTIMS]
        killing = [asyncio.create_task(self._kill(victim)) for victim in victims]
        async with grpc.aio.insecure_channel(self._there.grpc) as channel:
            stub = InstanceServiceStub(channel)
            lives = (self._live(stub, f"web-{number}") for number in range(INSTANCES))
            await asyncio.gather(*lives)
        await asyncio.gather(*killing)
        left = await self._settled()
        watching.cancel()
        copies = sum(len(host.agent.made) for host in self._hosts)
        for host in self._hosts:
            await host.close()
        figures = {
            "seed": self._seed,
            "seconds": round(monotonic() - began, 1),
            "instances": INSTANCES,
            "copies": copies,
            "asked_again": dict(self._again),
            "kills": {victim.name: victim.kills for victim in victims},
        }
        if not copies:
            left.append("nothing was ever made")
        doubled = [f"{id} ran twice at once" for id in sorted(self._doubled)]
        return Outcome("nodes", figures, [*left, *doubled])

    async def _live(self, stub: InstanceServiceStub, id: str) -> None:
        """Made, perhaps stopped and started, and in the end unmade, whoever is there to hear it."""
        await asyncio.sleep(self._draw.uniform(0, 10))
        limit = pb.ResourceSummary(cpu=20, memory=1)
        wanted = pb.Instance(id=id, uri="builtin:idle", resource=pb.Resource(limit=limit))
        await self._insist("Create", lambda: self._created(stub, wanted))
        for call in self._draw.choice([(), ("Stop",), ("Stop", "Start")]):
            await asyncio.sleep(self._draw.uniform(0, 5))
            await self._insist(call, lambda call=call: self._asked(stub, call, id))
        await asyncio.sleep(self._draw.uniform(0, 5))
        await self._insist("Destroy", lambda: self._asked(stub, "Destroy", id))

    async def _created(self, stub: InstanceServiceStub, wanted: pb.Instance) -> None:
        stream = stub.Create(wanted, metadata=(("x-request-id", wanted.id),), timeout=10)
        await stream.read()
        stream.cancel()

    async def _asked(self, stub: InstanceServiceStub, call: str, id: str) -> None:
        await getattr(stub, call)(pb.InstanceIdentifier(id=id), timeout=10)

    async def _insist(self, name: str, ask: object) -> None:
        """Ask until there is an answer. What its state forbids is an answer, too."""
        while True:
            try:
                await ask()  # type: ignore[operator]
                return
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    return
                if error.code() not in AWAY:
                    raise
            self._again[name] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _kill(self, victim: Program) -> None:
        for _ in range(KILLS):
            await asyncio.sleep(self._draw.uniform(2, 5))
            await victim.kill_and_wait()

    async def _watch(self) -> None:
        """Whether an instance ever runs on two nodes that are both alive."""
        while True:
            running = Counter(id for host in self._hosts for id in host.running)
            self._doubled |= {id for id, count in running.items() if count > 1}
            await asyncio.sleep(0.05)

    async def _settled(self) -> list[str]:
        """What is left that should not be, once it does not change any more."""
        deadline = monotonic() + SETTLE_SECONDS
        database = Database(self._there.database)
        try:
            left = await self._left(database)
            while left and monotonic() < deadline:
                await asyncio.sleep(PAUSE_SECONDS)
                left = await self._left(database)
        finally:
            await database.close()
        return left

    async def _left(self, database: Database) -> list[str]:
        async with database.session(writes=False) as session:
            counts = {
                "instances are not over": select(func.count()).where(InstanceRow.ended.is_(None)),
                "instances are not closed": select(func.count()).where(
                    InstanceRow.closed.is_(False)
                ),
                "placements are left": select(func.count(PlacementRow.uid)),
                "host ports are taken": select(func.count(HostPortRow.uid)),
                "thousandths of cores are taken": select(func.sum(NodeRow.taken_cpu)),
            }
            found = [
                f"{number} {what}"
                for what, query in counts.items()
                if (number := await session.scalar(query))
            ]
        copies = [id for host in self._hosts for id in host.agent.copies]
        return [*found, *(f"a copy of {id} is left" for id in sorted(copies))]
