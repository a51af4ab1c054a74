"""A cloudlet to practise on: what is described of it, and a resource manager that does as it is
told to, at the stores, as the notify server speaks for one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from domain import key_text
from domain.app import App, ImageType
from domain.appinst import AppInst, AppInstKey
from domain.cloudlet import Cloudlet, CloudletKey, IpSupport
from domain.cloudlet_info import CloudletInfo, CloudletState
from domain.clusterinst import ClusterInst, ClusterInstKey
from domain.errors import DomainError
from domain.flavor import Flavor
from domain.operation import Ask, Operation, OperationId, Stage
from domain.override import Override
from domain.patience import Patience
from domain.record import Noun, Record
from domain.standing import AppInstStanding, Report
from domain.tracking import ERRORS, Phase
from domain.usage import Usage
from store.appinsts import AppInsts
from store.cloudlet_refs import CloudletRefs
from store.cloudlets import Cloudlets
from store.clusterinsts import ClusterInsts
from store.engine import Database
from store.journal import Journal
from store.operations import Operations
from store.rows import now
from store.shelf import Shelf
from store.steering import Steering
from store.tail import Tail
from store.tracked import ROWS, Requested, Terms
from store.tracking import Tracking
from tests.store.desk import until
from tests.support.load import limit
from workflows.catalogue import CATALOGUE

WEST = CloudletKey(operator="tele", name="west")
SMALL = Flavor(name="small", ram=2048, vcpus=2, disk=2)
ASK = Ask(method="test")
MOST = 10_000
"""More than there is of anything."""

ENDS: dict[Phase, tuple[Phase, Phase, Phase]] = {
    Phase.CREATE_REQUESTED: (Phase.CREATING, Phase.READY, Phase.CREATE_ERROR),
    Phase.UPDATE_REQUESTED: (Phase.UPDATING, Phase.READY, Phase.UPDATE_ERROR),
    Phase.DELETE_REQUESTED: (Phase.DELETING, Phase.NOT_PRESENT, Phase.DELETE_ERROR),
}
"""What is begun, what it comes to, and what it comes to that cannot be done."""


def nonsense(at: Phase) -> list[Phase]:
    """All that a resource manager could say, also that it has nothing to say, and that does not
    belong there. Errors of a change go by any name."""
    awaited = [ends for asked, ends in ENDS.items() if at in {asked, ends[0]}]
    belongs = {word for ends in awaited for word in ends if word is not at}
    if Phase.UPDATE_ERROR in belongs:
        belongs |= ERRORS
    return [word for word in Phase if word not in belongs]


Fault = Callable[[Noun, Phase], str]
"""What a resource manager does with what is asked: nothing out of the ordinary (empty), `fail` it,
be `silent`, or `stall` once it has begun."""


def obeys(_noun: Noun, _asked: Phase) -> str:
    return ""


def does(what: str, at: Phase, noun: Noun | None = None) -> Fault:
    """A fault at one point."""
    return lambda which, asked: what if asked is at and noun in (None, which) else ""


@dataclass
class Site:
    """The stores, as the processes around them have them."""

    client: Client | None
    database: Database
    queues: str
    clusters: ClusterInsts
    apps: AppInsts
    refs: CloudletRefs
    tracking: Tracking
    operations: Operations
    journal: Journal
    shelf: Shelf
    steering: Steering
    fault: Fault = obeys

    async def describe(self) -> None:
        """A flavor, a cloudlet that is ready, two apps, and one that gives way."""
        named = key_text.name_text("small")
        await self._put(Noun.FLAVOR, named, SMALL)
        await self.describe_cloudlet()
        sizes = (Flavor(name="flavor1", ram=101024, vcpus=10, disk=500),)
        info = CloudletInfo(key=WEST, state=CloudletState.READY, flavors=sizes)
        await self._put(Noun.CLOUDLET_INFO, key_text.cloudlet_text(WEST), info)
        await self.describe_app("shop")
        await self.describe_app("other")
        await self.describe_app("agent", auto_delete=True, access_ports="")

    async def describe_cloudlet(self) -> None:
        place = Cloudlet(
            operator="tele",
            name="west",
            ip_support=IpSupport.DYNAMIC,
            dynamic_ips=5,
            latitude=47.5,
            longitude=19,
        )
        await self._put(Noun.CLOUDLET, key_text.cloudlet_text(WEST), place)

    async def describe_app(self, name: str, **more: Any) -> None:
        usual: dict[str, Any] = {
            "image_type": ImageType.DOCKER,
            "default_flavor": "small",
            "deployment": "kubernetes",
            "access_ports": "tcp:80",
        }
        app = App(developer="acme", name=name, version="1.0", **{**usual, **more})
        await self._put(Noun.APP, key_text.app_text(appinst_key(name)), app)

    async def _put(self, noun: Noun, key: str, facts: Any) -> None:
        record = Record(noun=noun, key=key, value=b"", facts=facts.model_dump_json())
        await self.shelf.create(record, [], ASK)

    async def create_cluster(
        self, name: str = "blue", override: Override = Override.NONE, **more: Any
    ) -> Requested:
        wanted = ClusterInst(
            key=cluster_key(name), **{"flavor": "small", "masters": 1, "nodes": 1, **more}
        )
        return await self.clusters.request_create(wanted, override, ASK)

    async def create_app(
        self,
        name: str = "shop",
        cluster: str = "blue",
        override: Override = Override.NONE,
        developer: str = "acme",
    ) -> Requested:
        wanted = AppInst(key=appinst_key(name, cluster, developer))
        return await self.apps.request_create(wanted, override, ASK)

    async def resize_cluster(
        self, name: str = "blue", nodes: int = 3, override: Override = Override.NONE
    ) -> Requested:
        return await self.clusters.request_update(cluster_key(name), nodes, override, ASK)

    async def delete_cloudlet(self) -> Requested | None:
        key = key_text.cloudlet_text(WEST)
        return await Cloudlets(self.database).request_delete(key, ASK)

    async def delete_cluster(
        self, name: str = "blue", override: Override = Override.NONE
    ) -> Requested:
        return await self.clusters.request_delete(cluster_key(name), override, ASK)

    async def delete_app(
        self,
        name: str = "shop",
        cluster: str = "blue",
        override: Override = Override.NONE,
        developer: str = "acme",
    ) -> Requested:
        key = appinst_key(name, cluster, developer)
        return await self.apps.request_delete(key, override, ASK)

    async def delete_cloudlet_refused(self) -> str:
        try:
            await self.delete_cloudlet()
        except DomainError as error:
            return error.message
        return ""

    @contextmanager
    def patience(self, patience: Patience) -> Iterator[None]:
        """What is asked for meanwhile has other times."""
        usual = self.clusters, self.apps
        terms = Terms(patience=patience)
        self.clusters = ClusterInsts(self.database, terms)
        self.apps = AppInsts(self.database, terms)
        try:
            yield
        finally:
            self.clusters, self.apps = usual

    async def clear(self) -> None:
        """Be rid of all instances, whatever is done to them."""
        for app in await self.running():
            key, override = app.instance.key, Override.CRM_AND_TRANSIENT_STATE
            gone = await self.apps.request_delete(key, override, ASK)
            await self.carry_out(gone)
        for cluster in await self.clusters.page("", MOST):
            if cluster.phase is Phase.DELETE_ERROR:
                await self.clusters.request_create(cluster.cluster, Override.CRM, ASK)
            override = Override.CRM_AND_TRANSIENT_STATE
            gone = await self.clusters.request_delete(cluster.cluster.key, override, ASK)
            await self.carry_out(gone)

    async def nodes(self, name: str) -> int:
        """How many nodes a cluster is to have."""
        standing = await self.clusters.get(key_text.clusterinst_text(cluster_key(name)))
        return standing.cluster.nodes if standing else 0

    async def begun(self, requested: Requested) -> None:
        """Wait until an operation's workflow has taken it up."""

        async def taken_up() -> bool:
            operation = await self.operations.get(requested.operation.id)
            return operation.stage is not Stage.REQUESTED

        async with limit(20):
            await until(taken_up)

    async def cancel(self, requested: Requested) -> None:
        """Tell an operation's workflow to stop, as the API does."""
        with suppress(RPCError):
            await self.temporal.get_workflow_handle(f"op-{requested.operation.id}").cancel()

    async def carry_out(self, requested: Requested) -> Operation:
        """Run the operation's workflow to its end, however it ends."""
        operation = requested.operation
        if operation.stage is Stage.REQUESTED:
            handle = await self.temporal.start_workflow(
                CATALOGUE[operation.kind].run,
                operation.id,
                id=f"op-{operation.id}",
                task_queue=f"{self.queues}workflows",
            )
            with suppress(WorkflowFailureError):
                await handle.result()
        return await self.operations.get(operation.id)

    async def told(self, operation: Operation | Requested) -> list[str]:
        """What those who called are told."""
        if isinstance(operation, Requested):
            operation = operation.operation
        return [event.note for event in await self.journal.since(operation.id, 0) if event.told]

    async def usage(self) -> Usage:
        standing = await self.refs.get(key_text.cloudlet_text(WEST))
        return standing.usage if standing else Usage()

    async def phases(self) -> dict[str, Phase]:
        """What there is, by short names, and in which phase."""
        found = {
            each.cluster.key.cluster: each.phase for each in await self.clusters.page("", MOST)
        }
        for app in await self.running():
            key = app.instance.key
            found[f"{key.app}@{key.cluster.cluster}"] = app.phase
        return found

    async def errors(self, name: str, noun: Noun) -> tuple[str, ...]:
        """What is told to be wrong with a cluster, or with an instance of an app."""
        if noun is Noun.CLUSTER_INST:
            cluster = await self.clusters.get(key_text.clusterinst_text(cluster_key(name)))
            return cluster.errors if cluster else ()
        apps = [each for each in await self.running() if each.instance.key.app == name]
        return apps[0].errors if apps else ()

    async def running(self) -> list[AppInstStanding]:
        """Apps' instances as they stand."""
        return [noted.standing() for noted in await self.apps.page("", MOST)]

    async def manage(self) -> None:
        """Be the cloudlet's resource manager until cancelled."""
        while True:
            for one in await self.clusters.page("", MOST):
                await self._obey(Noun.CLUSTER_INST, one.key, one.phase)
            for other in await self.running():
                await self._obey(Noun.APP_INST, other.key, other.phase)
            await asyncio.sleep(0.01)

    async def _obey(self, noun: Noun, key: str, asked: Phase) -> None:
        if asked not in ENDS:
            return
        begun, well, badly = ENDS[asked]
        fault = self.fault(noun, asked)
        if fault == "silent":
            return
        await self.say(noun, key, begun)
        if fault == "stall":
            return
        if fault == "fail":
            await self.say(noun, key, badly, "it broke", "twice")
        else:
            await self.say(noun, key, well)

    async def say_of(self, name: str, noun: Noun, phase: Phase, *errors: str) -> None:
        """The same of a cluster of that name, or of the shop in it."""
        key = key_text.clusterinst_text(cluster_key(name))
        if noun is Noun.APP_INST:
            key = key_text.appinst_text(appinst_key("shop", name))
        await self.say(noun, key, phase, *errors)

    @property
    def temporal(self) -> Client:
        assert self.client is not None, "these stores are nobody's to carry anything out"
        return self.client

    async def say(self, noun: Noun, key: str, phase: Phase, *errors: str) -> None:
        """Say something of an instance, as its resource manager does, and nudge who waits."""
        store = self.clusters if noun is Noun.CLUSTER_INST else self.apps
        if phase is Phase.NOT_PRESENT:
            waiting = await store.forget(key)
        else:
            waiting = await store.observe(Report(key=key, phase=phase, errors=errors))
        if waiting is not None and self.client is not None:
            await self.nudge(waiting)

    async def time_up(self, noun: Noun, key: str) -> None:
        """Have the time run out that an instance's resource manager has."""
        row = ROWS[noun]
        ending = update(row).where(row.key == key).values(until=now()).returning(row.operation)
        async with self.database.session(writes=True) as session:
            operation = (await session.execute(ending)).scalar_one()
        await self.nudge(OperationId(operation))

    async def nudge(self, operation: OperationId) -> None:
        with suppress(RPCError):  # it has not begun, or has ended
            await self.temporal.get_workflow_handle(f"op-{operation}").signal("nudge")


def cluster_key(name: str, developer: str = "acme") -> ClusterInstKey:
    return ClusterInstKey(cluster=name, cloudlet=WEST, developer=developer)


def appinst_key(name: str, cluster: str = "blue", developer: str = "acme") -> AppInstKey:
    key = cluster_key(cluster, developer)
    return AppInstKey(developer="acme", app=name, version="1.0", cluster=key)


@asynccontextmanager
async def site(
    client: Client,
    database: Database,
    queues: str,
    patience: Patience | None = None,
) -> AsyncIterator[Site]:
    """A site that is described, and whose resource manager is at work."""
    tail = Tail(database)
    place = described(database, tail, Terms(patience=patience or Patience()), client, queues)
    await place.describe()
    managing = asyncio.create_task(place.manage())
    try:
        yield place
    finally:
        managing.cancel()
        with suppress(asyncio.CancelledError):
            await managing
        await tail.close()


def described(
    database: Database,
    tail: Tail,
    terms: Terms | None = None,
    client: Client | None = None,
    queues: str = "",
) -> Site:
    """The stores alone, over whatever there is."""
    terms = terms or Terms()
    return Site(
        client,
        database,
        queues,
        ClusterInsts(database, terms),
        AppInsts(database, terms),
        CloudletRefs(database),
        Tracking(database, terms),
        Operations(database),
        Journal(database, tail),
        Shelf(database),
        Steering(database),
    )
