"""A harbour: the API's doors, a worker and nodes, each on real sockets, for a test of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc.aio
from sqlalchemy import update
from temporalio.client import Client

from activities.instances import Instances
from activities.logbook import Logbook
from activities.placing import Placing
from activities.progress import Progress
from activities.tracking import Tracking
from api import build
from api.__main__ import Api
from clients.node_agent import ANSWER_SECONDS, NodeAgents
from domain.instance import Call, InstanceView
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from settings import Nodes, Settings, Temporal
from store import placing, tracking
from store.clusters import Clusters
from store.draining import Draining
from store.engine import Database
from store.fleet import Fleet
from store.journal import Journal
from store.marks import Marks
from store.neglect import Neglect
from store.node_rows import NodeRow
from store.nodes import Leases
from store.nodes import Nodes as NodeStore
from store.observing import Observing
from store.operations import Operations
from store.rows import now
from store.sealing import Seal
from store.secrets import Secrets
from store.tail import Tail
from store.tracked import Terms
from tests.agents import Host
from tests.store.desk import until
from tests.support.load import limit
from workflows.rouse import Rouse
from workflows.serving import Serving, crew

PATIENCE_SECONDS = 20.0
"""How long what has to come may take to come. Only who waits in vain waits so long."""


def asked(id: str = "web-1", cpu: int = 10, **more: Any) -> pb.Instance:
    limit = pb.ResourceSummary(cpu=cpu, memory=10, disk=10)
    said = {"id": id, "uri": "builtin:idle", "resource": pb.Resource(limit=limit), **more}
    return pb.Instance(**said)


class Listener:
    """Someone who follows a create stream and keeps what was said."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.heard: list[pb.InstanceStatus] = []
        self.done = False
        self._task = asyncio.create_task(self._listen())

    @property
    def states(self) -> list[str]:
        """Every state in the order in which it came; samples in between do not count."""
        found: list[str] = []
        for status in self.heard:
            name = pb.Status.Name(status.status)
            if not (found and found[-1] == name == "RUNNING"):
                found.append(name)
        return found

    async def until(self, *states: str) -> None:
        """Until exactly these were heard."""
        wanted = list(states)
        with suppress(TimeoutError):
            async with limit(PATIENCE_SECONDS):
                await until(lambda: self.states == wanted or self.done)
        assert self.states == wanted, [str(each) for each in self.heard[-8:]]

    async def end(self) -> list[str]:
        """What was said in all, once the stream has ended."""
        await self._task
        return self.states

    def hang_up(self) -> None:
        self._stream.cancel()

    async def _listen(self) -> None:
        try:
            async for status in self._stream:
                self.heard.append(status)
        finally:
            self.done = True


class Harbour:
    def __init__(self, settings: Settings, client: Client, database: Database) -> None:
        self._settings = settings
        self._client = client
        self.database = database
        self.hosts: list[Host] = []
        self.address = ""

    async def open(self) -> None:
        self.api = Api(self._settings, self._client, build.Build())
        self.address, _ = await self.api.start()
        self.channel = grpc.aio.insecure_channel(self.address)
        self.stub = InstanceServiceStub(self.channel)

    async def close(self) -> None:
        for host in self.hosts:
            await host.close()
        await self.shut()

    async def shut(self) -> None:
        """Close the doors, whatever runs on nodes."""
        await self.channel.close()
        await self.api.stop()

    async def host(self, id: str, **more: Any) -> Host:
        host = Host(id, self.address, **more)
        self.hosts.append(host)
        await host.up()
        await self.takes_work(id)
        return host

    async def takes_work(self, id: str) -> None:
        store = NodeStore(self.database, Leases())

        async def runs() -> bool:
            return (await store.get(id)).phase == "running"

        await until(runs)

    def create(self, instance: pb.Instance) -> Listener:
        return Listener(self.stub.Create(instance))

    async def ask(self, call: Call, id: str = "web-1") -> None:
        request = pb.InstanceIdentifier(id=id)
        await getattr(self.stub, call.capitalize())(request, timeout=20)

    async def lose(self, host: Host, *, killing: bool = True) -> None:
        """Have a node vanish, as if its lease had just run out."""
        await host.down(killing=killing)
        async with self.database.session(writes=True) as session:
            ages = now() - timedelta(hours=1)
            await session.execute(update(NodeRow).where(NodeRow.id == host.id).values(heard=ages))
        leases = self.api.scheduling.leases
        await leases.expire()

    async def settled(self, id: str, phase: str) -> InstanceView:
        """An instance once it is in a phase."""
        instances = self.api.scheduling.instances

        async def is_there() -> bool:
            return (await instances.get("default", id)).phase == phase

        await until(is_there)
        return await instances.get("default", id)

    async def drain(self, node: str, seconds: float) -> None:
        await self.api.scheduling.nodes.drain(node, timedelta(seconds=seconds))

    async def drained(self, node: str) -> None:
        """Until nothing is on a node any more that was to be emptied."""
        nodes = self.api.scheduling.nodes

        async def is_empty() -> bool:
            view = await nodes.get(node)
            return not view.draining and not view.instances

        await until(is_empty)
        assert (await nodes.get(node)).cordoned

    async def rouse(self) -> None:
        """What the schedule does every five seconds."""
        queue = f"{self._settings.temporal.queue_prefix}workflows"
        await self._client.execute_workflow(Rouse.run, id=f"{queue}-rouse", task_queue=queue)


@asynccontextmanager
async def worker(
    client: Client,
    database: Database,
    prefix: str,
    folder: Path,
    *,
    cached: bool = True,
    answer_seconds: float = ANSWER_SECONDS,
) -> AsyncIterator[None]:
    """A worker process, as far as instances need one, on nodes and at the edge; its key lies where
    the API's does."""
    vault = Secrets(database, Seal.from_file(folder / "seal.key"))
    agents, tail = NodeAgents(vault, answer_seconds=answer_seconds), Tail(database)
    books = [
        Placing(
            placing.Placing(database, Fleet(snapshot_seconds=0)),
            Draining(database),
            Neglect(database, lost=Leases().lost),
        ),
        Progress(Operations(database), Clusters(database, vault), Journal(database, tail)),
        Tracking(tracking.Tracking(database, Terms())),
    ]
    cache = 1000 if cached else 0
    serving = Serving(prefix=prefix, graceful=timedelta(0), cached_workflows=cache)
    hands = [Instances(agents, Observing(database))]
    workers = crew(client, hands, books, [Logbook(Marks(database))], serving).values()
    runs = [asyncio.create_task(each.run()) for each in workers]
    try:
        yield
    finally:
        await asyncio.gather(*(each.shutdown() for each in workers))
        await asyncio.gather(*runs)
        await tail.close()
        await agents.close()


@asynccontextmanager
async def harbour(
    client: Client, database: Database, url: str, prefix: str, folder: Path, **said: Any
) -> AsyncIterator[Harbour]:
    settings = Settings(
        database=url,
        key_file=folder / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address="127.0.0.1:1", queue_prefix=prefix),
        nodes=Nodes(**{"local": True, **said}),
    )
    place = Harbour(settings, client, database)
    await place.open()
    try:
        yield place
    finally:
        with suppress(grpc.aio.AioRpcError):
            await place.close()
