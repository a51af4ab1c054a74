"""The worker process: hands for some queues, or all, and the workflows.

    python worker.py                      everything
    python worker.py machines kubeadm     just those queues

Any number may run side by side; processes are added where work waits. SIGTERM stops taking work,
gives every hand time to end, and cuts off the rest: whoever takes the step up again finds what has
been done already."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Protocol, TypeVar

import structlog
import uvloop
from sqlalchemy.exc import DBAPIError
from temporalio.service import RPCError
from temporalio.worker import Worker

import collecting
from activities.caring import Caring
from activities.endpoints import Endpoints
from activities.healing import Healing
from activities.instances import Instances
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.logbook import Logbook
from activities.machines import Machines
from activities.placing import Placing
from activities.progress import Progress
from activities.quarantine import Quarantine
from activities.steering import Steering
from activities.storage import Shown, Storage
from activities.storage_watch import StorageWatch
from activities.sweeping import Sweeping
from activities.tending import Tending
from activities.tracking import Tracking
from activities.verbs import BOOKS_QUEUE
from activities.watching import Rhythm, Watching
from clients.ceph import CephStorage, ProgramMons, Session, identities
from clients.kubernetes import KubernetesApi
from clients.kubernetes_network import NETWORK
from clients.maas import Maas, MaasEndpoints, MaasMachines
from clients.node_agent import NodeAgents
from clients.ssh import SshNodes
from domain.errors import DomainError, Unavailable
from domain.health import Tolerance
from domain.patience import chosen
from domain.quarantine import Terms
from domain.repairs import Prudence
from domain.storage_home import Home
from logs import keep_private, start_log
from offer import catalogue
from settings import Settings, read
from store import placing, quarantine, schema, tracking
from store import steering as steers
from store.backups import SealedBackups
from store.clusters import Clusters
from store.draining import Draining
from store.engine import Database
from store.fleet import Fleet
from store.journal import Journal
from store.marks import Marks
from store.neglect import Neglect
from store.observations import Observations
from store.observing import Observing
from store.operations import Operations
from store.quotas import Quota
from store.repairs import Repairs
from store.sealing import Seal
from store.secrets import Secrets
from store.stocks import Stocks
from store.storages import Storages
from store.tail import Tail
from store.tracked import Terms as EdgeTerms
from store.watches import Watches
from supervision import Supervisor
from systems import Ceph, MissingKeyError
from workflows.connecting import Trust, connected, tasks_measured, unless_stopped
from workflows.sealed import converter, warn_of_migration
from workflows.serving import SCHEDULED, SLOTS, Serving, crew, keep, schedule

PAUSE_SECONDS = 1.0
"""Between two looks at something that is still starting."""

log = structlog.get_logger()


class Closes(Protocol):
    """A client that holds connections."""

    async def close(self) -> None: ...


Held = TypeVar("Held", bound=Closes)


class Crew:
    """Everything one worker process is made of."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self.seal = Seal.from_file(settings.key_file, settings.key_command)
        self.vault = Secrets(database, self.seal)
        self.operations = Operations(database)
        self.clusters = Clusters(database, self.vault)
        self.stocks = Stocks(database)
        self.watches = Watches(database)
        edge = settings.edge
        strict, enforces = edge.strict_references, edge.enforce_resources
        said = chosen(**edge.timeouts.model_dump())
        quota = Quota(edge.developer_records, edge.developer_mb * 2**20)
        placed = EdgeTerms(patience=said, strict=strict, enforces=enforces, quota=quota)
        self.tracking = tracking.Tracking(database, placed)
        self.journal = Journal(database, Tail(database))
        self.marks = Marks(database)
        terms = Terms(**settings.kaas.quarantine.model_dump())
        self.quarantine = quarantine.Quarantine(database, terms)
        self.repairs = Repairs(database, Prudence(**settings.kaas.repair.model_dump()))
        self.steering = steers.Steering(database)
        self._maas: Maas | None = None
        self._clients: list[Closes] = []

    def hands(self, queues: Sequence[str]) -> list[object]:
        """The capabilities for these queues; only what is asked for is built."""
        builders: dict[str, Callable[[], object]] = {
            "machines": self._machines,
            "endpoints": lambda: Endpoints(MaasEndpoints(self._region())),
            "kubeadm": self._kubeadm,
            "kubernetes": self._kubernetes,
            "storage": self._changes,
            "watching": self._watching,
            "instances": self._instances,
        }
        return [build() for queue, build in builders.items() if queue in queues]

    def books(self) -> list[object]:
        approval, ceph = self._settings.kaas.approval_seconds, self._settings.ceph
        return [
            Progress(self.operations, self.clusters, self.journal),
            Sweeping(self.operations, self.clusters, self.tracking, self.stocks, self.watches),
            Tracking(self.tracking),
            Steering(self.steering, approval=timedelta(seconds=approval)),
            Tending(self.watches, self._tolerance()),
            Quarantine(self.quarantine),
            Healing(self.repairs),
            Caring(Storages(self._database), ceph.name, ceph.upgrade.mode, ceph.releases),
            self._placing(),
        ]

    def beside(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """What goes on beside the books until we stop."""
        ceph = self._settings.ceph
        if not ceph.urls:
            return []
        every = timedelta(seconds=ceph.look_seconds)
        home = self._home(ceph) if ceph.kubernetes else None
        conf, keyring = ceph.conf_file, ceph.keyring_file
        mons = ProgramMons(conf, keyring) if conf and keyring else None
        seen = Observations(self._database)
        watch = StorageWatch(seen, self._storage(), ceph.name, every, home, mons)
        return [("ceph", watch.run)]

    async def close(self) -> None:
        """Let go of every connection that was made."""
        for client in self._clients:
            await client.close()

    def _region(self) -> Maas:
        if self._maas is None:
            maas = self._settings.maas
            self._maas = self._kept(Maas(maas.url, maas.key(), at_once=maas.at_once))
        return self._maas

    def _machines(self) -> Machines:
        maas = self._settings.maas
        pool = MaasMachines(self._region(), erase=maas.erase, supplies=maas.supply.read())
        return Machines(pool, self._settings.kaas.failed_machine)

    def _kubeadm(self) -> Kubeadm:
        return Kubeadm(self._nodes())

    def _nodes(self) -> SshNodes:
        kaas = self._settings.kaas
        backups = SealedBackups(self._settings.backups, self.seal, most=kaas.backups_kept)
        nodes = SshNodes(
            self.vault,
            backups,
            port=kaas.ssh_port,
            api_port=kaas.api_port,
            images=self._settings.maas.supply.image_repository,
        )
        return self._kept(nodes)

    def _kubernetes(self) -> Kubernetes:
        return Kubernetes(self._api())

    def _api(self) -> KubernetesApi:
        kaas, offered = self._settings.kaas, catalogue(self._settings)
        network, networks = kaas.network or NETWORK, offered.networks
        api = KubernetesApi(self.vault, resolve=kaas.resolve, network=network, networks=networks)
        return self._kept(api)

    def _storage(self) -> CephStorage:
        ceph = self._settings.ceph
        session = Session(ceph.urls, ceph.user, ceph.secret, authority=ceph.ca_file)
        makers = identities(session, ceph.conf_file, ceph.keyring_file)
        return self._kept(CephStorage(session, makers, self.vault))

    def _changes(self) -> Storage:
        shown = Shown(Observations(self._database), self._settings.ceph.name)
        return Storage(self._storage(), shown=shown)

    def _placing(self) -> Placing:
        database = self._database
        lost = timedelta(seconds=self._settings.nodes.lost_seconds)
        neglect = Neglect(database, lost=lost)
        return Placing(placing.Placing(database, Fleet()), Draining(database), neglect)

    def _instances(self) -> Instances:
        return Instances(self._kept(NodeAgents(self.vault)), Observing(self._database))

    def _home(self, ceph: Ceph) -> Callable[[], Awaitable[Home | None]]:
        """Looks at the cluster of ours that Ceph runs in."""
        api = self._api()

        async def look() -> Home | None:
            cluster = await self.clusters.get(ceph.kubernetes)
            watched = await self.watches.watched(cluster.uid)
            if watched is None or not watched.stands:
                return None
            return await api.home(watched.node, ceph.namespace)

        return look

    def _watching(self) -> Watching:
        """With connections of its own: a thousand that are looked at must not push out those that
        something is being done to."""
        kaas, slots = self._settings.kaas, self._settings.worker.slots
        api = KubernetesApi(self.vault, resolve=kaas.resolve, clients=slots.get("watching", SLOTS))
        rhythm = Rhythm(
            look_seconds=kaas.look_seconds,
            tour_seconds=kaas.tour_seconds,
            inspect_seconds=kaas.inspect_seconds,
        )
        machines = MaasMachines(self._region())
        names = MaasEndpoints(self._region())
        kept = self._kept(api)
        tolerance = self._tolerance()
        return Watching(self.watches, kept, machines, self._nodes(), names, rhythm, tolerance)

    def _tolerance(self) -> Tolerance:
        kaas = self._settings.kaas
        return Tolerance(silent_seconds=kaas.silent_seconds, expiry_days=kaas.expiry_days)

    def _kept(self, client: Held) -> Held:
        self._clients.append(client)
        return client


QUEUES = (
    "machines",
    "endpoints",
    "kubeadm",
    "kubernetes",
    "storage",
    "watching",
    "instances",
    BOOKS_QUEUE,
)


def _temporal(settings: Settings) -> tuple[str, str, str]:
    """Where it is, the namespace, and where its side of this process is measured."""
    said, worker = settings.temporal, settings.worker
    return said.address, said.namespace, f"{worker.metrics_host}:{worker.metrics_port}"


async def vetted(database: Database, vault: Secrets, stop: asyncio.Event) -> bool:
    """Wait until the database has our tables, and can tell whether our key is the right one, since
    nothing may be sealed before. Failed if it is not; False if we are told to stop first."""
    said = ""
    while not stop.is_set():
        try:
            if not (lacking := await schema.lacking(database)):
                await vault.verify()
                return True
            trouble = f"the database is {lacking}"
        except Unavailable as error:
            trouble = error.message
        except DBAPIError as error:
            trouble = f"{error.orig}; has it been migrated?"
        if trouble != said:
            log.warning("waiting for the database", error=trouble)
            said = trouble
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PAUSE_SECONDS)
    return False


async def serve(settings: Settings, queues: Sequence[str]) -> None:
    """Work until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database = Database(settings.database, connections=settings.database_connections)
    crewing = Crew(settings, database)
    serving = Serving(
        slots=settings.worker.slots,
        cached_workflows=settings.worker.cached_workflows,
        graceful=timedelta(seconds=settings.worker.graceful_seconds),
        prefix=settings.temporal.queue_prefix,
        deployment=settings.worker.deployment,
        build_id=settings.worker.build_id,
        migration=settings.temporal.migration,
    )
    beside = Supervisor()
    try:
        if not await unless_stopped(vetted(database, crewing.vault, stop), stop):
            return
        migration = settings.temporal.migration
        warn_of_migration(migration)
        trust = Trust(**settings.temporal.trust())
        sealing = converter(crewing.seal, migration)
        connecting = connected(*_temporal(settings), sealing, trust)
        client = await unless_stopped(connecting, stop)
        if client is None:
            return
        books = crewing.books() if BOOKS_QUEUE in queues else []
        workers = crew(client, crewing.hands(queues), books, [Logbook(crewing.marks)], serving)
        if books:
            await schedule(client, serving.prefix, SCHEDULED)
            ceph = settings.ceph
            if ceph.urls:
                await keep(client, serving.prefix, ceph.name, ceph.upgrade.policy())
        beside.measure = tasks_measured(client)
        for name, work in (("keys", crewing.vault.follow), *(crewing.beside() if books else [])):
            beside.keep(name, work)
        collecting.settle()
        log.info("worker ready", queues=sorted(workers))
        await run(list(workers.values()), stop)
    finally:
        await beside.close()
        await crewing.close()
        await database.close()


async def run(workers: Sequence[Worker], stop: asyncio.Event) -> None:
    """Run all until told to stop, or until one of them cannot go on, which ends the process."""
    runs = [asyncio.create_task(worker.run()) for worker in workers]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([*runs, stopping], return_when=asyncio.FIRST_COMPLETED)
    log.info("worker stopping")
    await asyncio.gather(*(worker.shutdown() for worker in workers))
    stopping.cancel()
    await asyncio.gather(*runs)


def main(arguments: Sequence[str]) -> int:
    unknown = [queue for queue in arguments if queue not in QUEUES]
    if unknown:
        print(
            f"error: no such queue: {', '.join(unknown)}\n  do: choose among {', '.join(QUEUES)}",
            file=sys.stderr,
        )
        return 2
    try:
        settings = read()
        start_log(settings)
        keep_private(settings)
        # The logbook tells how every step went; Temporal would tell it again, with a traceback.
        logging.getLogger("temporalio.activity").setLevel(logging.CRITICAL)
        uvloop.run(serve(settings, arguments or QUEUES))
    except MissingKeyError as error:
        return _refused(str(error), "set WINDLASS_MAAS__API_KEY or WINDLASS_MAAS__API_KEY_FILE")
    except DomainError as error:
        return _refused(error.message, error.do)
    except RPCError as error:
        return _refused(
            f"Temporal refused: {error.message}",
            "look at WINDLASS_TEMPORAL__NAMESPACE, and at WINDLASS_TEMPORAL__ADDRESS",
        )
    return 0


def _refused(message: str, do: str) -> int:
    print(f"error: {message}\n  do: {do}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
