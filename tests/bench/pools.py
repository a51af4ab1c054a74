"""What a change costs by the node: a pool scaled up and down, beside the bare workflow that does
the same with the same hands.

A change of another kind, measured likewise, is a line in `CHANGES` and a bare workflow. Each has to
find what the one before has left."""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import grpc.aio
from temporalio.client import Client

from domain.cluster import ClusterPlan, Limits
from domain.operation import Ask, Operation, OperationId, Reached
from domain.pools import PoolSize
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from store.clusters import Building, Clusters
from store.engine import Database
from store.operations import Operations
from store.pools import Pools, Terms
from store.sealing import Seal
from store.secrets import Secrets
from tests.bench.bare import BareChangePools
from tests.bench.creation import EAGER, Run, ended, seconds, told
from tests.bench.figures import Figure, figure, ratio
from tests.bench.history import history
from tests.bench.place import PYTHON, Place, place

CLUSTER, POOL = "measured", "w"
WORKERS = 30
WARMING = 1
TERMS = Terms(limits=Limits(), building=Building(domain="windlass.test"))


class Change(NamedTuple):
    """Something done to every worker of the cluster, by us and by a bare workflow."""

    name: str
    ask: Callable[[ClusterStub], Any]
    """Asks for it as a caller does."""
    accept: Callable[[Database], Awaitable[Operation | None]]
    """Writes it down as our API does, for the bare workflow."""
    bare: Callable[[Any, ClusterPlan, bool], Awaitable[None]]


def scaled(name: str, size: int) -> Change:
    """The pool brought to another size."""

    def ask(stub: ClusterStub) -> Any:
        wanted = pb.ScaleNodePoolSpec(name=POOL, count=size)
        return stub.ScaleNodePool(pb.ScaleNodePoolMsg(clusterName=CLUSTER, node_pools=[wanted]))

    async def accept(database: Database) -> Operation | None:
        sizes = [PoolSize(name=POOL, count=size)]
        return await Pools(database).request_scale(CLUSTER, sizes, TERMS, Ask(method="bare"))

    return Change(name, ask, accept, BareChangePools.run)


CHANGES = (
    scaled(f"0 to {WORKERS} workers", WORKERS),
    scaled(f"{WORKERS} to 0 workers", 0),
)


class Ours:
    """As a caller has it: from the call to the end of the workflow behind it."""

    def __init__(self, site: Place, client: Client, stub: ClusterStub) -> None:
        self._site, self._client, self._stub = site, client, stub

    async def create(self) -> None:
        """A cluster without workers."""
        order = pb.CreateClusterMsg(
            name=CLUSTER,
            control_plane_nodes=pb.ControlPlaneMachineSpec(count=1),
            worker_node_pools=[pb.MachineSpec(name=POOL, count=0)],
        )
        await self._carried_out(self._stub.CreateCluster(order))

    async def change(self, change: Change) -> Run:
        cpu, began = self._site.cpu(), perf_counter()
        workflow_id = await self._carried_out(change.ask(self._stub))
        took, used = perf_counter() - began, self._site.cpu(since=cpu)
        return Run(change.name, took, await history(self._client, workflow_id), used)

    async def _carried_out(self, asked: Any) -> str:
        await asked
        workflow_id = f"op-{dict(await asked.trailing_metadata())['windlass-operation']}"
        await ended(self._client, workflow_id)
        return workflow_id


class Bare:
    """The bare workflow with hands that are lent by ours: what they write down is what the next
    change finds."""

    def __init__(self, site: Place, client: Client) -> None:
        self._site, self._client = site, client

    async def change(self, change: Change) -> Run:
        settings = self._site.settings
        database = Database(settings.database)
        vault = Secrets(database, Seal.from_file(settings.key_file))
        operation, plan = await self._accepted(database, change)
        workflow_id = f"op-{operation}"
        cpu, began = self._site.cpu(), perf_counter()
        await self._client.execute_workflow(
            change.bare, args=[plan, True], id=workflow_id, task_queue=EAGER
        )
        took, used = perf_counter() - began, self._site.cpu(since=cpu)
        await Clusters(database, vault).reach(Reached.well(operation, None, change.name))
        await database.close()
        return Run(change.name, took, await history(self._client, workflow_id), used)

    async def _accepted(
        self, database: Database, change: Change
    ) -> tuple[OperationId, ClusterPlan]:
        """Taken up at once, so that nobody else begins it."""
        asked, operations = await change.accept(database), Operations(database)
        assert asked is not None
        await operations.begin(asked.id)
        return asked.id, await operations.plan(asked.id)


async def measure(repeats: int) -> list[Figure]:
    """Ours and the bare one by turns, on one cluster."""
    async with place(machines=1 + 2 * WORKERS) as site:
        worker = await site.start(EAGER, PYTHON, "-m", "tests.bench.bare_worker", EAGER)
        await worker.told("bare worker ready")
        client = await site.client()
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            ours, bare = Ours(site, client, ClusterStub(channel)), Bare(site, client)
            await ours.create()
            rounds = [
                [await who.change(change) for who in (ours, bare) for change in CHANGES]
                for _ in range(repeats + WARMING)
            ]
    columns = list(zip(*rounds[WARMING:], strict=True))
    beside = zip(CHANGES, columns[: len(CHANGES)], columns[len(CHANGES) :], strict=True)
    return [each for change, one, other in beside for each in compared(change.name, one, other)]


def compared(name: str, ours: Sequence[Run], bare: Sequence[Run]) -> list[Figure]:
    """What was done to every worker, by us and by a bare workflow."""
    pairs = zip(seconds(ours), seconds(bare), strict=True)
    return [
        ratio(f"{name} / bare, our hands", seconds(ours), seconds(bare)),
        figure(
            f"{name}: a node, beyond the bare one",
            "ms",
            *(1000 * (one - other) / WORKERS for one, other in pairs),
        ),
        *told(name, ours),
        *told(f"{name}, bare", bare),
    ]
