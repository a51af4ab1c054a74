"""The API process: `python -m api`. Both doors are on one loop, and SIGTERM drains them."""

import asyncio
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial

import structlog
import uvloop
from google.longrunning import operations_pb2 as longrunning_pb2  # type: ignore[import-untyped]
from temporalio.client import Client

import collecting
from api import build
from api.admission import Admission
from api.belonging import Belonging
from api.ceph import services
from api.door import Door, Service
from api.edge import serving as edge
from api.edge.presence import Presence, reached_at
from api.edge.progress import Progress
from api.entrance import Entrance, entrance
from api.http_api import Served, http_api
from api.kaas.cluster import Cluster, Offer
from api.kaas.kubeconfigs import Kubeconfigs
from api.kudo import serving as kudo
from api.launch import Launch, client
from api.limits import Limits
from api.listening import also
from api.meters import Meters
from api.node import window as node
from api.ops import clusters as views
from api.ops import fleet as runs
from api.ops.health import Health
from api.ops.longrunning import LongRunning
from api.ops.operations import Operations
from api.ops.outlook import Outlook
from api.ops.plans import Plans
from api.retention import Kept, forgetting
from api.rkt.public import About, PublicAPI, versioned
from api.server import Server
from api.sweep import Sweep
from api.tls import encryption, peers
from api.web import Check, Web
from clients.documents import Documents
from clients.node_agent import NodeAgents
from domain.cluster import Limits as ClusterLimits
from domain.errors import DomainError, Unavailable
from domain.koor_cluster import Care
from domain.patience import chosen
from domain.quarantine import Terms
from domain.repairs import Prudence
from domain.share import PoolTerms
from logs import keep_private, start_log
from offer import catalogue
from protos.gen.agent import node_pb2
from protos.gen.kaas import api_pb2 as kaas_pb2
from protos.gen.ops import clusters_pb2, health_pb2
from protos.gen.ops import operations_pb2 as ops_pb2
from protos.gen.rkt import api_pb2 as rkt_pb2
from settings import Settings, read
from store import operations as store
from store.claim import Claim
from store.cluster_owners import ClusterOwners
from store.clusters import Building, Clusters
from store.controllers import Controllers
from store.engine import Database
from store.journal import Journal
from store.nodes import Leases
from store.pools import Pools
from store.quarantine import Quarantine
from store.quotas import Quota
from store.reasons import Reasons
from store.repairs import Repairs
from store.sealing import Seal
from store.secrets import Secrets
from store.steering import Steering
from store.tail import Tail
from store.upgrades import Upgrades
from store.window import FleetWindow
from supervision import Supervisor
from workflows.catalogue import CATALOGUE
from workflows.connecting import Trust
from workflows.sealed import converter, warn_of_migration

QUEUE = "workflows"

CHECK_SECONDS = 2.0
"""How long the database may keep us from opening the doors. It is asked again with every call."""

RESERVED_CONNECTIONS = 2
"""By these this process says that it is alive. Calls have none of them, so that one that is busy is
not taken for dead."""

log = structlog.get_logger()


class Api:
    """Everything one API process is made of, put together from its settings."""

    def __init__(
        self, settings: Settings, temporal: Client, built: build.Build, seal: Seal | None = None
    ) -> None:
        self._settings = settings
        self._prudence = Prudence(**settings.kaas.repair.model_dump())
        url, most = settings.database, settings.limits.operations_per_user
        many = settings.database_connections
        self._database = Database(url, connections=many, operations_per_user=most)
        self._tail = Tail(self._database)
        self._vault = Secrets(self._database, seal or _sealing(settings))
        self._admission = Admission(self._database, self._vault)
        self.admit = self._admission.admit
        self._operations = store.Operations(self._database)
        launch = self._launch = Launch(temporal, CATALOGUE, settings.temporal.queue_prefix + QUEUE)
        meters, window = Meters(), settings.request_id_window
        self._pods = FleetWindow(self._database, log_bytes=settings.pods.log_mb * 10**6)
        forget = forgetting(self._database, self._pods, _kept(settings))
        self._sweep = Sweep(
            self._operations, launch, meters, self.admit, window=window, forget=forget
        )
        legacy, lease = settings.edge.legacy_codes, settings.edge.controller_lease
        self._reserved = Database(settings.database, connections=RESERVED_CONNECTIONS)
        known, claims = Controllers(self._reserved), partial(Claim, self._database)
        self.presence = Presence(known, lease, self.admit, self._lapsed, claims)
        self._notifying = edge.Notifying(self._database, self.presence, launch.nudge_soon, legacy)
        meters.add(self._notifying.measured)
        self._agents = NodeAgents(self._vault)
        asked = kudo.Asked(self._agents, Belonging(self._vault), self._vault)
        terms = _scheduling(settings)
        self.scheduling = kudo.Scheduling(self._database, launch, asked, self.admit, terms)
        self._beside = Supervisor(meters.runs)
        self.notify_address = ""
        """Where notify is served besides, once it is."""
        self._also = also(settings.nodes.also_listen)
        self._entrance = self._entered()
        certificates = encryption(settings.tls, self._entrance.signed_into)
        limits = Limits(settings.limits, settings.auth.trusted_proxies)
        door = Door(meters, self._entrance.gate, self._entrance.trail, calls=limits.calls())
        clusters, at_the_edge = self._clusters(built), self._edge()
        said = settings.ceph
        care = Care(releases=said.releases, policy=said.upgrade.policy(), stability=said.stability)
        ceph = services(self._database, launch, said.name, self._pooled(), care)
        served = [
            *self._entrance.services,
            clusters,
            self._views(),
            *self._changes([clusters, ceph.changed]),
            *at_the_edge,
            *self._window(built),
            *self.scheduling.services,
            *self._running(),
            *ceph,
        ]
        self._server = Server(
            served,
            meters,
            describes_itself=settings.reflection,
            door=door,
            admit=self.admit,
            certificates=certificates,
            front=limits.front(),
        )
        self._notify = self._notifying.server(
            meters, door, self.admit, settings.reflection, certificates, limits.front()
        )
        is_open, ui = self._entrance.is_open, settings.temporal.ui()
        all_of_it = Served(served, clusters, at_the_edge)
        http = http_api(door, self.admit, all_of_it, settings, ui, built, is_open=is_open)
        checks, gate, address = self._checks(), self._entrance.gate, settings.http_address
        self._web = Web(address, checks, meters, *http, certificates, gate, limits.http())

    @property
    def services(self) -> list[Service]:
        """Everything that is served."""
        return self._server.services

    async def start(self) -> tuple[str, str]:
        """Open both doors, and return their addresses."""
        said = self._settings
        await self.presence.claim(reached_at(said.edge.external_address, said.grpc_address))
        grpc = await self._server.start(said.grpc_address, self._also, said.tls.client_address)
        if said.edge.notify_address:
            self.notify_address = await self._notify.start(said.edge.notify_address)
        address = await self.presence.claim(reached_at(said.edge.external_address, grpc))
        http = await self._web.start()  # the last, since it says that we are ready
        self._beside.keep("sweep", self._sweep.run)
        self._beside.keep("presence", partial(self.presence.run, address))
        self._beside.keep("leases", self.scheduling.leases.run)
        self._beside.keep("keys", self._vault.follow)
        self._beside.keep("memory", collecting.give_back)
        return grpc, http

    async def stop(self) -> None:
        """Let what is under way end, in the order in which others notice."""
        self._web.drain()
        await self._server.stop()
        await self._notify.stop()  # its streams have ended with the others
        await self._notifying.close()
        await self._web.stop()  # its calls have been running as long
        await self._beside.close()
        await self.presence.close()
        await self._admission.close()
        await self._entrance.close()
        await self._launch.close()
        await self._pods.close()
        await self.scheduling.close()
        await self._agents.close()
        await self._tail.close()
        await self._reserved.close()
        await self._database.close()

    def _entered(self) -> Entrance:
        said = self._settings
        doors = (said.grpc_address, said.http_address)
        more = (said.edge.notify_address, self._also.address, said.tls.client_address)
        crl = said.tls.client_crl
        return entrance(self._database, self._vault, said.auth, (*doors, *more), crl)

    def _clusters(self, built: build.Build) -> Service:
        kaas = self._settings.kaas
        clusters = Clusters(self._database, self._vault)
        limits = ClusterLimits(
            control_planes=kaas.control_planes,
            machines_per_pool=kaas.machines_per_pool,
            machines=kaas.machines_per_cluster,
        )
        building = Building(
            domain=kaas.domain,
            workers_at_once=kaas.workers_at_once,
            upgrade_at_once=kaas.upgrade_at_once,
            drain_seconds=kaas.drain_seconds,
            drain_policy=kaas.drain_policy,
            pools=self._pooled(),
        )
        offer = Offer(catalogue(self._settings), limits, building, self._prudence)
        kubeconfigs = Kubeconfigs(
            self._vault, clusters, api_port=kaas.api_port, resolve=kaas.resolve
        )
        pools, upgrades = Pools(self._database), Upgrades(self._database)
        servicer = Cluster(clusters, pools, upgrades, kubeconfigs, self._launch, offer, built)
        return Service(kaas_pb2.DESCRIPTOR.services_by_name["Cluster"], servicer)

    def _pooled(self) -> PoolTerms | None:
        """What pools in Ceph are made with."""
        ceph = self._settings.ceph
        return PoolTerms(**ceph.pool.model_dump()) if ceph.urls else None

    def _changes(self, foreseeable: list[Service]) -> list[Service]:
        """The services of operations; the changes of these may be asked for as plans."""
        journal, outlook = Journal(self._database, self._tail), Outlook(self._operations)
        steering = Steering(self._database)
        health = Service(health_pb2.DESCRIPTOR.services_by_name["Health"], self._health())
        only, owners = {health.name: {"Repair"}}, ClusterOwners(self._database)
        plans = Plans([*foreseeable, health], self._operations, outlook, owners, only)
        own = Operations(self._operations, steering, journal, outlook, plans, self._launch)
        common = LongRunning(self._operations, steering, journal, outlook, self._launch)
        return [
            Service(ops_pb2.DESCRIPTOR.services_by_name["Operations"], own),
            Service(longrunning_pb2.DESCRIPTOR.services_by_name["Operations"], common),
            health,
        ]

    def _views(self) -> Service:
        described = clusters_pb2.DESCRIPTOR.services_by_name["Clusters"]
        return Service(described, views.clusters(self._database, self._vault))

    def _health(self) -> Health:
        prudence = self._prudence
        terms = Terms(**self._settings.kaas.quarantine.model_dump())
        return Health(
            Repairs(self._database, prudence),
            Reasons(self._database, terms),
            Quarantine(self._database, terms),
            self._launch,
            prudence,
        )

    def _edge(self) -> list[Service]:
        said = self._settings.edge
        terms = edge.Terms(
            image_host=said.image_host,
            strict_references=said.strict_references,
            lax_masks=said.lax_masks,
            legacy_codes=said.legacy_codes,
            allow_app_change_in_use=said.allow_app_change_in_use,
            enforce_resources=said.enforce_resources,
            patience=chosen(**said.timeouts.model_dump()),
            node_patience=said.node_patience,
            peers=peers(self._settings.tls),
            exec_patience=said.exec_patience,
            quota=Quota(said.developer_records, said.developer_mb * 2**20),
        )
        documents = Documents(said.fetch_allow)
        progress = Progress(Journal(self._database, self._tail), self._launch)
        described = edge.services(self._database, documents, terms, self._notifying, progress)
        return [*described, self._notifying.service]

    def _lapsed(self) -> None:
        """Others have swept away what was said to this process, so it has to be said again."""
        self._notifying.streams.end("this process was taken for dead")

    def _window(self, built: build.Build) -> list[Service]:
        """What is seen of pods, and what nodes tell of them."""
        about = About(version=versioned(built), directory=str(self._settings.state))
        public, told = PublicAPI(self._pods, about), node.Window(self._pods, Belonging(self._vault))
        seen, hears = (each.DESCRIPTOR.services_by_name for each in (rkt_pb2, node_pb2))
        return [Service(seen["PublicAPI"], public), Service(hears["Window"], told)]

    def _running(self) -> list[Service]:
        """What runs on nodes, in words of our own."""
        on, said = self.scheduling, self._settings.nodes
        terms = runs.Terms(restart=said.restart, keeps=not said.stop_removes)
        rest = self._agents, self._launch, Belonging(self._vault), terms
        return runs.services(on.instances, on.nodes, on.placing, *rest)

    def _checks(self) -> list[Check]:
        return [
            Check("database", self._admission.trouble),
            Check("temporal", self._launch.trouble, "what is accepted starts once it is back"),
        ]


def _sealing(settings: Settings) -> Seal:
    return Seal.from_file(settings.key_file, settings.key_command)


def _kept(said: Settings) -> Kept:
    over = said.nodes.over_kept, said.nodes.over_most
    return Kept(said.operations_kept, said.clusters_kept, said.pods.kept, *over)


def _scheduling(settings: Settings) -> kudo.Terms:
    said = settings.nodes
    return kudo.Terms(
        leases=Leases(
            suspect=timedelta(seconds=said.suspect_seconds),
            lost=timedelta(seconds=said.lost_seconds),
            subnets=said.subnets,
            quarantine=timedelta(seconds=said.quarantine_seconds),
            ceiling=said.ceiling,
            ceilings=said.ceilings,
            largest=said.largest,
            per_user=said.per_user,
        ),
        agent_port=said.agent_port,
        bare_tokens=said.bare_tokens,
        restart=said.restart,
        stop_removes=said.stop_removes,
        local=said.local,
    )


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; a second one does not wait for the drain."""
    said, seal = settings.temporal, _sealing(settings)
    temporal = await client(
        said.address, said.namespace, converter(seal, said.migration), Trust(**said.trust())
    )
    warn_of_migration(said.migration)
    api = Api(settings, temporal, await build.found(), seal)
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        with suppress(Unavailable, TimeoutError):  # then it is asked with the first call
            async with asyncio.timeout(CHECK_SECONDS):
                await api.admit()
        grpc, http = await api.start()
        collecting.settle()
        log.info("ready", grpc=grpc, http=http, notify=api.notify_address)
        await api.presence.until(told)
        log.info("draining")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await api.stop()


def main() -> int:
    try:
        settings = read()
        start_log(settings)
        keep_private(settings)
        uvloop.run(serve(settings))
    except DomainError as error:
        print(f"error: {error.message}\n  do: {error.do}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
