"""The yard: real workflows on a real Temporal server and a real database, over a world in memory.

Faults are put in by an interceptor, as something outside the product: it lets a hand do its work
and then fails it, repeats it, or lets somebody call the operation off at that very moment."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import update
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.caring import Caring
from activities.endpoints import Endpoints
from activities.healing import Healing
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.logbook import Logbook
from activities.machines import Machines
from activities.progress import Progress
from activities.quarantine import Quarantine
from activities.steering import Steering
from activities.storage import Storage
from activities.sweeping import Sweeping
from activities.tending import Tending
from activities.tracking import Tracking
from activities.watching import Rhythm, Watching
from domain.ceph_releases import KNOWN as CEPHS
from domain.cluster import Cluster, ClusterOrder, DrainPolicy, Limits, Phase, PoolOrder
from domain.errors import DomainError, NotFound
from domain.health import Tolerance
from domain.machine import SlotPhase
from domain.operation import Ask, Operation, OperationId, StepKey
from domain.pools import PoolSize
from domain.quarantine import FailedMachine
from domain.quarantine import Terms as QuarantineTerms
from domain.releases import CATALOGUE as RELEASES
from domain.repairs import Prudence
from domain.share import PoolTerms
from domain.storage import Observation
from domain.storage_look import Look
from domain.storage_ports import Storage as StoragePort
from domain.upgrade_policy import Mode
from sim.memory import (
    MemoryApi,
    MemoryEndpoints,
    MemoryMachines,
    MemoryNodes,
)
from sim.memory_storage import MemoryStorage
from sim.world import MemoryWorld
from store import quarantine, tracking
from store import steering as steers
from store.clusters import Building, Clusters, Deleted
from store.engine import Database
from store.journal import Journal
from store.marks import Marks
from store.observations import Observations
from store.operations import Operations
from store.pools import Pools, Terms
from store.repairs import Repairs
from store.rows import SlotRow, now
from store.secrets import Secrets
from store.stocks import Stocks
from store.storages import Storages
from store.tail import Tail
from store.tracked import Terms as EdgeTerms
from store.upgrades import Upgrades
from store.watches import Watches
from tests.support.load import limit
from workflows.catalogue import CATALOGUE
from workflows.cluster_monitor import ClusterMonitor
from workflows.serving import Serving, crew

UNTROUBLED = frozenset({"Survey", "ClusterMonitor"})
"""Workflows that carry out no operation: their activities are nobody's steps."""

RHYTHM = Rhythm(look_seconds=0.05, inspect_seconds=0.2)
TOLERANCE = Tolerance(silent_seconds=0.3)

Hook = Callable[[], Awaitable[None]]

EAGER = Prudence(patience_seconds=0, ready_seconds=0.5)
"""Repairs that wait for nothing, as nobody does in a test."""

TERMS = Terms(limits=Limits(), building=Building(domain="yard.test"))


@dataclass
class Trouble(Interceptor):
    """What happens to hands after their work is done. `at` counts steps that are no undos."""

    seen: list[str] = field(default_factory=list)
    fail: Callable[[StepKey], DomainError | None] = lambda _: None
    repeat: bool = False
    at: int | None = None
    when: Callable[[StepKey], bool] = lambda _: False
    then: Hook | None = None
    fired: int = 0

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Troubled(next, self)


class _Troubled(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, trouble: Trouble) -> None:
        super().__init__(next)
        self._trouble = trouble

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if activity.info().workflow_type in UNTROUBLED or activity.info().is_local:
            return await self.next.execute_activity(input)
        trouble = self._trouble
        key = StepKey.parse(activity.info().activity_id)
        answer = await self.next.execute_activity(input)
        if trouble.repeat:
            answer = await self.next.execute_activity(input)
        if not key.undo:
            trouble.seen.append(str(key))
            meant = trouble.at == len(trouble.seen) - 1 or trouble.when(key)
            if meant and trouble.then is not None:
                trouble.fired += 1
                await trouble.then()
        if error := trouble.fail(key):
            trouble.fired += 1
            raise error
        return answer


@dataclass
class Yard:
    """A place to run operations in and to look around afterwards."""

    client: Client
    database: Database
    world: MemoryWorld
    trouble: Trouble
    prefix: str
    clusters: Clusters
    operations: Operations
    journal: Journal
    pools: Pools
    steering: steers.Steering
    upgrades: Upgrades
    watches: Watches
    repairs: Repairs
    quarantine: quarantine.Quarantine
    storages: Storages

    async def look(self, seen: Observation | None = None) -> None:
        """See Ceph, as the watch does: the world's, unless it is another."""
        observations = Observations(self.database)
        await observations.claim("ceph", timedelta(hours=1))
        await observations.keep("ceph", Look(observation=seen or self.world.ceph.seen()))

    async def ask_marks(self, *osds: int, inside: bool = False) -> Operation:
        await self.look()
        asked = await self.storages.request_marks("ceph", osds, Ask(method="mark"), inside=inside)
        assert asked is not None
        return asked

    async def ask_ceph(self, version: str) -> Operation:
        await self.look()
        ask = Ask(method="renew")
        asked = await self.storages.request_upgrade("ceph", version, CEPHS, ask)
        assert asked is not None
        return asked

    async def ask_pool(self, name: str = "own") -> Operation:
        await self.look()
        ask = Ask(method="pool")
        return await self.storages.request_pool("ceph", name, PoolTerms(), ask)

    async def ask_drop_pool(self, name: str = "own") -> Operation:
        await self.look()
        return await self.storages.request_drop("ceph", name, name, Ask(method="drop"))

    async def create(
        self, control_planes: int = 1, workers: int = 1, *, version: str = ""
    ) -> Operation:
        """Ask for the cluster `blue` and carry the operation out to its end."""
        operation = await self.ask(control_planes, workers, version=version)
        await self.carry_out(operation)
        return await self.operations.get(operation.id)

    async def ask(
        self,
        control_planes: int = 1,
        workers: int = 1,
        *,
        version: str = "",
        storage: bool = False,
    ) -> Operation:
        order = ClusterOrder(
            name="blue",
            control_plane=PoolOrder(name="control-plane", count=control_planes),
            pools=(PoolOrder(name="w", count=workers),),
        )
        building = Building(domain="yard.test", pools=PoolTerms())
        release, ask = RELEASES.choose(version), Ask(method="create", storage=storage)
        return await self.clusters.request_create(order, release, building, ask)

    async def ask_delete(self, *, data: str = "") -> Deleted:
        return await self.clusters.request_delete(
            "blue", Ask(method="delete", data=data, data_of="blue")
        )

    async def delete(self, *, data: str = "") -> Operation:
        """Ask for the delete of `blue` and carry it out."""
        deleted = await self.ask_delete(data=data)
        await self.carry_out(deleted.operation)
        return await self.operations.get(deleted.operation.id)

    async def ask_add(self, name: str, count: int = 1) -> Operation:
        orders = [PoolOrder(name=name, count=count)]
        return await self.pools.request_add("blue", orders, TERMS, Ask(method="add"))

    async def ask_scale(
        self,
        name: str,
        count: int,
        *,
        drain_seconds: float = 600,
        drain_policy: DrainPolicy = DrainPolicy.PROCEED,
    ) -> Operation | None:
        given = {"drain_seconds": drain_seconds, "drain_policy": drain_policy}
        building = TERMS.building.model_copy(update=given)
        terms = TERMS.model_copy(update={"building": building})
        sizes = [PoolSize(name=name, count=count)]
        return await self.pools.request_scale("blue", sizes, terms, Ask(method="scale"))

    async def ask_drop(self, name: str) -> Operation:
        return await self.pools.request_drop("blue", [name], TERMS, Ask(method="drop"))

    async def ask_upgrade(
        self,
        version: str,
        *,
        at_once: int = 1,
        drain_seconds: float = 600,
        drain_policy: DrainPolicy = DrainPolicy.PROCEED,
        approve_each: str = "",
    ) -> Operation:
        given = {
            "upgrade_at_once": at_once,
            "drain_seconds": drain_seconds,
            "drain_policy": drain_policy,
        }
        building = TERMS.building.model_copy(update=given)
        ask = Ask(method="upgrade", approve_each=approve_each)
        return await self.upgrades.request("blue", version, RELEASES, building, ask)

    async def ask_repair(self, *nodes: str) -> Operation | None:
        return await self.repairs.request("blue", nodes, Ask(method="repair"))

    async def start(self, operation: Operation) -> None:
        await self.client.start_workflow(
            CATALOGUE[operation.kind].run,
            operation.id,
            id=f"op-{operation.id}",
            task_queue=f"{self.prefix}workflows",
        )

    async def carry_out(self, operation: Operation) -> None:
        """Run the operation's workflow to its end, however it ends."""
        await self.start(operation)
        await self.finish(operation.id)

    async def finish(self, operation: OperationId) -> None:
        with suppress(WorkflowFailureError):
            await self.client.get_workflow_handle(f"op-{operation}").result()

    async def cancel(self, operation: OperationId) -> None:
        """Call an operation off, as the API does: in the row first, then in Temporal."""
        await self.steering.cancel(operation, "ann")
        await self.client.get_workflow_handle(f"op-{operation}").cancel()

    async def monitor(self) -> str:
        """Have `blue` watched, as the sweep does; the id of its monitor."""
        cluster = (await self.clusters.get("blue")).uid
        name = f"monitor-{cluster}"
        await self.client.start_workflow(
            ClusterMonitor.run, cluster, id=name, task_queue=f"{self.prefix}workflows"
        )
        return name

    async def turns(self, phase: Phase, said: str = "") -> Cluster:
        """Wait until `blue` is in that phase and says so."""
        async with limit(50):
            while True:
                cluster = await self.clusters.get("blue")
                if cluster.phase is phase and said in cluster.message:
                    return cluster
                await asyncio.sleep(0.02)

    async def saw(self, name: str, phase: SlotPhase, **seen: str) -> None:
        """Write down how a slot is, as those do who look at clusters while nothing is done."""
        async with self.database.session(writes=True) as session:
            its = update(SlotRow).where(SlotRow.name == name)
            await session.execute(its.values(phase=phase, changed=now(), **seen))

    async def noticed(self) -> None:
        """The same for every slot that says it is Ready, or that it is not, and is wrong."""
        for state in (await self.clusters.nodes("blue")).slots:
            ready = self.world.is_ready(state.slot.cluster_uid, state.slot.name)
            if ready and state.phase is SlotPhase.JOINED:
                await self.saw(state.slot.name, SlotPhase.HEALTHY)
            elif not ready and state.phase is SlotPhase.HEALTHY:
                await self.saw(state.slot.name, SlotPhase.JOINED)

    async def pause(self, operation: OperationId) -> None:
        """Pause an operation, as the API does: in the row first, then a nudge."""
        await self.steering.pause(operation, "ann")
        await self.nudge(operation)

    async def resume(self, operation: OperationId) -> None:
        await self.steering.resume(operation, "ann")
        await self.nudge(operation)

    async def nudge(self, operation: OperationId) -> None:
        await self.client.get_workflow_handle(f"op-{operation}").signal("nudge")

    async def blue(self) -> Cluster | None:
        try:
            return await self.clusters.get("blue")
        except NotFound:
            return None


def _hands(
    world: MemoryWorld, storage: StoragePort, watching: Watching, failed_machine: FailedMachine
) -> list[object]:
    """What touches the world."""
    return [
        Machines(MemoryMachines(world), failed_machine),
        Endpoints(MemoryEndpoints(world)),
        Kubeadm(MemoryNodes(world)),
        Kubernetes(MemoryApi(world)),
        Storage(storage, apart_seconds=0),
        watching,
    ]


def _watching(
    world: MemoryWorld, watches: Watches, rhythm: Rhythm, tolerance: Tolerance
) -> Watching:
    api, machines = MemoryApi(world), MemoryMachines(world)
    nodes, endpoints = MemoryNodes(world), MemoryEndpoints(world)
    return Watching(watches, api, machines, nodes, endpoints, rhythm, tolerance)


@asynccontextmanager
async def yard(
    client: Client,
    database: Database,
    vault: Secrets,
    prefix: str,
    *,
    world: MemoryWorld | None = None,
    trouble: Trouble | None = None,
    cached: bool = True,
    rhythm: Rhythm = RHYTHM,
    tolerance: Tolerance = TOLERANCE,
    prudence: Prudence = EAGER,
    failed_machine: FailedMachine = FailedMachine.RELEASE,
    approval: timedelta = timedelta(hours=1),
    storage: StoragePort | None = None,
) -> AsyncIterator[Yard]:
    """A yard with its workers running. Uncached, every workflow task replays from the start.
    `storage`: another Ceph than the world's."""
    world, trouble = world or MemoryWorld.of(12), trouble or Trouble()
    clusters, operations = Clusters(database, vault), Operations(database)
    journal, steering = Journal(database, Tail(database)), steers.Steering(database)
    watches = Watches(database)
    tracks = tracking.Tracking(database, EdgeTerms())
    repairs = Repairs(database, prudence)
    shunning = quarantine.Quarantine(database, QuarantineTerms())
    watching = _watching(world, watches, rhythm, tolerance)
    hands = _hands(world, storage or MemoryStorage(world), watching, failed_machine)
    books = [
        Progress(operations, clusters, journal),
        Sweeping(operations, clusters, tracks, Stocks(database), watches),
        Tracking(tracks),
        Steering(steering, approval=approval),
        Tending(watches, tolerance),
        Quarantine(shunning),
        Healing(repairs),
        Caring(Storages(database), "ceph", Mode.UPGRADE, CEPHS),
    ]
    serving = Serving(prefix=prefix, cached_workflows=1000 if cached else 0)
    interceptors = [Logbook(Marks(database)), trouble]
    workers = crew(client, hands, books, interceptors, serving).values()
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield Yard(
            client,
            database,
            world,
            trouble,
            prefix,
            clusters,
            operations,
            journal,
            Pools(database),
            steering,
            Upgrades(database),
            watches,
            repairs,
            shunning,
            Storages(database),
        )
    finally:
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*runs)
