"""SIGKILL of any process at any moment, while clusters and apps at the edge are created, changed,
called off and deleted, and while their resource manager fails, hangs and loses its connection.

In the end every operation has ended and nothing is under way; what is taken of the cloudlet is what
the instances say they took, and what its platform carries is what stands. Then all of it is deleted
by ordinary calls, under fire again, and nothing is left."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import grpc.aio
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from domain.errors import DomainError
from domain.operation import ACTIVE, TRACKED
from domain.tracking import Phase
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import IP_ACCESS_DEDICATED
from store.engine import Database
from store.rows import OperationRow
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.reliability.books import (
    App,
    Books,
    Cluster,
    contradictions,
    figures,
    read,
    under_way,
)
from tests.reliability.drill_kills import killing
from tests.reliability.installation import EVERYTHING, Installation, installed
from tests.reliability.outcome import Outcome
from tests.reliability.users import REPEATED, Users, refusal

CLOUDLET = "tele/west"
CLUSTERS = ("red", "blue", "green", "autocluster-a", "autocluster-b")
WITH_ADDRESS = ("red", "blue")
APPS = tuple(f"app{number}" for number in range(6))
PORTS = ("tcp:80", "tcp:80,udp:80", "tcp:9000,http:443", "udp:5000")

USERS = 8
DEEDS = 8
"""Of each user, one after the other."""

AWAY = (SQLAlchemyError, DomainError, OSError)
"""What reading the rows comes to while the database is dead."""

HOWS = ("slow", "refuse", "drop", "reboot")
FAULTS = 24
CALL_SECONDS = 20.0
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.2
ROUNDS = 20
"""In how many everything that stands is to be deleted: each takes what can go now."""


async def on_sqlite(seed: int) -> Outcome:
    return await drill("edge", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("edge-postgresql", seed, postgres=True)


async def drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed(*EVERYTHING, machines=1, draw=draw, postgres=postgres) as there:
        faults = there.folder / "faults.json"
        faults.write_text(json.dumps(planned(draw)))
        await there.start_crm(CLOUDLET)
        database, users = Database(there.database, connections=1), Users(there.grpc)
        try:
            run = Run(there, database, users, draw)
            await run.describe()
            await run.quarrel()
            faults.unlink()
            await run.calm()
            await run.clear()
            return run.outcome(name, seed)
        finally:
            await users.close()
            await database.close()


def planned(draw: random.Random) -> list[dict[str, Any]]:
    """What goes wrong with the resource manager, counted anew from each of its starts."""
    wheres = [f"crm {verb} *" for verb in ("create", "delete", "update")]
    faults: list[dict[str, Any]] = [
        {
            "where": draw.choice(wheres),
            "how": draw.choice(HOWS),
            "nth": draw.randint(1, 20),
            "seconds": 0.5,
        }
        for _ in range(FAULTS)
    ]
    silent = {"where": "crm hear *", "how": "hang", "nth": draw.randint(3, 15)}
    stuck = {"where": "crm create *", "how": "hang", "nth": draw.randint(3, 15)}
    return [*faults, silent, stuck]


class Deed(NamedTuple):
    """What a user asks for."""

    method: str
    message: ClusterInst | AppInst

    @classmethod
    def drawn(cls, draw: random.Random) -> "Deed":
        cluster, app = draw.choice(CLUSTERS), draw.choice(APPS)
        made = stubs.appinst(app, cluster)
        if draw.random() < 0.6:
            return cls(draw.choice(("CreateAppInst", "DeleteAppInst")), made)
        if cluster.startswith("auto"):
            return cls("DeleteClusterInst", stubs.clusterinst(cluster))
        wanted = stubs.clusterinst(cluster, num_nodes=draw.randint(1, 3))
        if cluster in WITH_ADDRESS:
            wanted.ip_access = IP_ACCESS_DEDICATED
        method = draw.choice(("CreateClusterInst", "CreateClusterInst", "DeleteClusterInst"))
        if draw.random() < 0.2:
            method, wanted.fields[:] = "UpdateClusterInst", ["14"]
        return cls(method, wanted)


class Run:
    """One run of the drill."""

    def __init__(
        self, there: Installation, database: Database, users: Users, draw: random.Random
    ) -> None:
        self._there, self._database, self._users, self._draw = there, database, users, draw
        self._edge = Edge(users.channel)
        self._began = monotonic()
        self._answers: Counter[str] = Counter()
        self._cancelled = 0
        self._agreed: dict[str, dict[str, Any]] = {}
        """By when it was, what everybody says alike."""
        self._found: list[str] = []

    async def describe(self) -> None:
        """A cloudlet that is ready, and what may run there."""
        await self._told("CreateFlavor", stubs.flavor())
        await self._told("CreateCloudlet", stubs.cloudlet())
        for number, name in enumerate(APPS):
            ports = PORTS[number % len(PORTS)]
            await self._told("CreateApp", stubs.app(name, access_ports=ports))
        await self._until(self._is_ready, "the cloudlet is not READY")

    async def quarrel(self) -> None:
        """Everybody wants something, and nobody looks what the others do."""
        async with killing(self._there, self._draw):
            over = asyncio.Event()
            cancelling = asyncio.create_task(self._cancel(over))
            await asyncio.gather(*(self._use() for _ in range(USERS)))
            over.set()
            await cancelling

    async def calm(self) -> None:
        """The resource manager is started once more, and from here on does as it is told: then
        nothing stays under way, and everything that is written agrees."""
        await self._there.programs["crm"].kill_and_wait()
        await self._until(self._is_ready, "the cloudlet is not READY")
        await self._judge("after the quarrel")

    async def clear(self) -> None:
        """Nobody is stuck: ordinary calls delete whatever stands, while everything is killed again,
        and nothing is left of it."""
        async with killing(self._there, self._draw):
            for _ in range(ROUNDS):
                books = await self._books()
                if not books.instances:
                    break
                await asyncio.gather(*map(self._delete, books.instances))
        await self._judge("after all was deleted")
        left = (await self._books()).instances
        self._found += [f"cannot be deleted: {one.key}, which is {one.phase}" for one in left]

    async def _delete(self, one: Cluster | App) -> None:
        await asyncio.sleep(self._draw.uniform(0, 3))
        if isinstance(one, App):
            key = one.instance.key
            await self._say("DeleteAppInst", stubs.appinst(key.app, key.cluster.cluster))
            return
        cluster = stubs.clusterinst(one.cluster.key.cluster)
        if one.phase is Phase.DELETE_ERROR:
            await self._say("CreateClusterInst", cluster)
        await self._say("DeleteClusterInst", cluster)

    async def _say(self, method: str, message: Any) -> None:
        self._answers[await self._told(method, message)] += 1

    async def _use(self) -> None:
        for _ in range(DEEDS):
            await asyncio.sleep(self._draw.uniform(0, 1.5))
            await self._say(*Deed.drawn(self._draw))

    async def _told(self, method: str, message: Any) -> str:
        """What the caller is told in the end. Who is not answered asks again under the same key."""
        key, deadline = str(uuid4()), monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await self._edge(
                    method, message, timeout=CALL_SECONDS, metadata=(("x-request-id", key),)
                )
            except grpc.aio.AioRpcError as error:
                if error.code() not in REPEATED or monotonic() > deadline:
                    return f"{method}: {refusal(error)}"
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return f"{method}: done"

    async def _cancel(self, over: asyncio.Event) -> None:
        """Somebody else changes their mind."""
        while not over.is_set():
            await asyncio.sleep(self._draw.uniform(0.3, 1.5))
            running = await self._running()
            if running:
                self._cancelled += await self._users.cancel(self._draw.choice(running))

    async def _running(self) -> Sequence[str]:
        query = select(OperationRow.id).where(
            OperationRow.kind.in_(TRACKED), OperationRow.stage.in_(ACTIVE)
        )
        with suppress(*AWAY):
            async with self._database.session(writes=False) as session:
                return (await session.scalars(query.order_by(OperationRow.id))).all()
        return []

    async def _books(self) -> Books:
        """As soon as the database can be read."""
        while True:
            with suppress(*AWAY):
                return await read(self._database, self._there.folder / "carried")
            await asyncio.sleep(LOOK_SECONDS)

    async def _is_ready(self) -> list[str]:
        try:
            infos = await self._edge("ShowCloudletInfo", CloudletInfo())
        except grpc.aio.AioRpcError as error:
            return [refusal(error)]
        ready = [info for info in infos if info.state == CLOUDLET_STATE_READY]
        return [] if ready else [f"described as {infos}"]

    async def _judge(self, when: str) -> None:
        """What is wrong, once that does not go away by itself."""

        async def wrong() -> list[str]:
            books = await self._books()
            return [*under_way(books), *contradictions(books)]

        await self._until(wrong, when)
        self._agreed[when] = figures(await self._books())

    async def _until(self, wrong: Callable[[], Any], what: str) -> None:
        deadline = monotonic() + PATIENCE_SECONDS
        found = await wrong()
        while found and monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
            found = await wrong()
        self._found += [f"{what}: {text}" for text in found]

    def outcome(self, name: str, seed: int) -> Outcome:
        broken = [*self._found, *self._there.fallen()]
        if not self._agreed["after the quarrel"]["states"]:
            broken.append("nothing stood when the quarrel was over")
        self._there.keeps_logs = bool(broken)
        told: dict[str, Any] = {
            "seed": seed,
            "seconds": round(monotonic() - self._began, 1),
            "kills": {one.name: one.kills for one in self._there.programs.values()},
            "answers": dict(sorted(self._answers.items())),
            "cancelled": self._cancelled,
            "agreed": self._agreed,
        }
        return Outcome(name, told, broken)
