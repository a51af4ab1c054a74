"""What our promises cost: CreateCluster beside the bare workflow that makes the same cluster."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from statistics import mean
from time import perf_counter
from typing import Any

import grpc.aio
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from domain.cluster import ClusterOrder, ClusterPlan, PoolOrder
from domain.operation import Ask, OperationId
from domain.releases import CATALOGUE
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from store.clusters import Building, Clusters
from store.engine import Database
from store.operations import Operations
from store.sealing import Seal
from store.secrets import Secrets
from tests.bench.bare import BareCreateCluster
from tests.bench.figures import Figure, Target, figure, ratio
from tests.bench.history import History, history
from tests.bench.place import PYTHON, Place, place

EAGER, DISPATCHED = "bare", "bare-dispatched"
"""Queues, each with a worker of its own: what told nothing hands activities to itself, and what
has Temporal give every one out."""
WORKERS = 2
MACHINES = 1 + WORKERS
WARMING = 2
MOST_TIMES = Target(most=1.25)
LOOK_SECONDS = 0.002

names = (f"bench-{number}" for number in count())


@dataclass(frozen=True)
class Run:
    """One cluster made."""

    name: str
    seconds: float
    history: History
    cpu: dict[str, float]
    """Seconds of processor by process."""


class Ours:
    """CreateCluster as a caller has it: from the call to the end of the workflow behind it."""

    def __init__(self, place: Place, client: Client, stub: ClusterStub) -> None:
        self._place = place
        self._client = client
        self._stub = stub

    async def make(self) -> Run:
        cpu, began = self._place.cpu(), perf_counter()
        order = ordered(next(names))
        call = self._stub.CreateCluster(order)
        await call
        trailers: Any = dict(await call.trailing_metadata())
        workflow_id = f"op-{trailers['windlass-operation']}"
        await ended(self._client, workflow_id)
        seconds, used = perf_counter() - began, self._place.cpu(since=cpu)
        return Run(order.name, seconds, await history(self._client, workflow_id), used)


class Bare:
    """The bare workflow, with the hands of its own worker or with those `lent` by ours."""

    def __init__(self, place: Place, client: Client, queue: str, *, lent: bool) -> None:
        self._place = place
        self._client = client
        self._queue = queue
        self._lent = lent

    async def make(self) -> Run:
        operation, plan = await self._plan()
        workflow_id = f"op-{operation}"
        cpu, began = self._place.cpu(), perf_counter()
        await self._client.execute_workflow(
            BareCreateCluster.run, args=[plan, self._lent], id=workflow_id, task_queue=self._queue
        )
        seconds, used = perf_counter() - began, self._place.cpu(since=cpu)
        return Run(plan.name, seconds, await history(self._client, workflow_id), used)

    async def _plan(self) -> tuple[OperationId, ClusterPlan]:
        """Taken up at once, so that nobody else begins it. Hands that are lent look for it."""
        order = ClusterOrder(
            name=next(names),
            control_plane=PoolOrder(name="control-plane", count=1),
            pools=(PoolOrder(name="worker", count=WORKERS),),
        )
        building, ask = Building(domain="windlass.test"), Ask(method="bare")
        settings = self._place.settings
        database = Database(settings.database)
        vault = Secrets(database, Seal.from_file(settings.key_file))
        operations = Operations(database)
        clusters = Clusters(database, vault)
        asked = await clusters.request_create(order, CATALOGUE.choose(""), building, ask)
        await operations.begin(asked.id)
        plan = await operations.plan(asked.id)
        await database.close()
        return asked.id, plan


async def measure(repeats: int) -> list[Figure]:
    """Ours and bare ones by turns, in one place. First with the very hands that ours has; then with
    hands that write nothing down; and last with such hands in the workflow's own process, to which
    it hands each step itself, as classes of hands that scale apart cannot be had."""
    async with place(machines=4 * MACHINES * (repeats + WARMING)) as site:
        for queue, flags in ((EAGER, ()), (DISPATCHED, ("--dispatched",))):
            program = (PYTHON, "-m", "tests.bench.bare_worker", queue, *flags)
            worker = await site.start(queue, *program)
            await worker.told("bare worker ready")
        client = await site.client()
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            makers = (
                Ours(site, client, ClusterStub(channel)),
                Bare(site, client, EAGER, lent=True),
                Bare(site, client, DISPATCHED, lent=False),
                Bare(site, client, EAGER, lent=False),
            )
            rounds = [[await maker.make() for maker in makers] for _ in range(repeats + WARMING)]
    ours, lent, dispatched, eager = zip(*rounds[WARMING:], strict=True)
    return [
        ratio("CreateCluster / bare, our hands", seconds(ours), seconds(lent), MOST_TIMES),
        ratio("CreateCluster / bare, no logbook", seconds(ours), seconds(dispatched)),
        ratio("CreateCluster / bare, one process", seconds(ours), seconds(eager)),
        *told("CreateCluster", ours),
        *told("bare, our hands", lent),
        *told("bare, no logbook", dispatched),
        *told("bare, one process", eager),
    ]


def seconds(runs: Sequence[Run]) -> list[float]:
    return [run.seconds for run in runs]


def told(name: str, runs: Sequence[Run]) -> list[Figure]:
    """Where the time went: the hands, or between them."""
    seen = [(run, run.history, run.history.hands) for run in runs]
    apart = [run.seconds - history.busy_seconds for run, history, _ in seen]
    works = [1000 * mean(hand.seconds for hand in hands) for _, _, hands in seen]
    waits = [1000 * mean(hand.waited for hand in hands) for _, _, hands in seen]
    return [
        figure(f"{name}: whole", "s", *seconds(runs)),
        figure(
            f"{name}: while a hand worked", "s", *(history.busy_seconds for _, history, _ in seen)
        ),
        figure(f"{name}: while none did", "s", *apart),
        figure(f"{name}: hands", "", *(len(hands) for _, _, hands in seen)),
        figure(f"{name}: a hand's work", "ms", *works),
        figure(f"{name}: a hand's wait to be taken up", "ms", *waits),
        figure(f"{name}: workflow tasks", "", *(history.tasks for _, history, _ in seen)),
        *(
            figure(f"{name}: processor, {part}", "s", *(run.cpu[part] for run in runs))
            for part in runs[0].cpu
        ),
    ]


def ordered(name: str) -> pb.CreateClusterMsg:
    """The cluster that is measured everywhere."""
    return pb.CreateClusterMsg(
        name=name,
        control_plane_nodes=pb.ControlPlaneMachineSpec(count=1),
        worker_node_pools=[pb.MachineSpec(name="worker", count=WORKERS)],
    )


async def ended(client: Client, workflow_id: str) -> None:
    """Wait for the end of a workflow that may not have begun."""
    while True:
        try:
            await client.get_workflow_handle(workflow_id).result()
            return
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        await asyncio.sleep(LOOK_SECONDS)
