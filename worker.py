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
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Protocol, TypeVar

import structlog
import uvloop
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import Worker

from activities.endpoints import Endpoints
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.logbook import Logbook
from activities.machines import Machines
from activities.progress import Progress
from activities.sweeping import Sweeping
from activities.verbs import BOOKS_QUEUE
from clients.kubernetes import KubernetesApi
from clients.maas import Maas, MaasEndpoints, MaasMachines
from clients.ssh import SshNodes
from domain.errors import DomainError, Unavailable
from settings import MissingKeyError, Settings, start_log
from store.clusters import Clusters
from store.engine import Database
from store.journal import Journal
from store.marks import Marks
from store.operations import Operations
from store.sealing import Seal
from store.secrets import Secrets
from store.stocks import Stocks
from store.tail import Tail
from workflows.serving import SCHEDULED, Serving, crew, schedule

CONNECT_SECONDS = 60.0
"""How long Temporal may take to come up before we give up."""

log = structlog.get_logger()


class Closes(Protocol):
    """A client that holds connections."""

    async def close(self) -> None: ...


Held = TypeVar("Held", bound=Closes)


class Crew:
    """Everything one worker process is made of."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self.vault = Secrets(database, Seal.from_file(settings.key_file))
        self.operations = Operations(database)
        self.clusters = Clusters(database, self.vault)
        self.stocks = Stocks(database)
        self.journal = Journal(database, Tail(database))
        self.marks = Marks(database)
        self._maas: Maas | None = None
        self._clients: list[Closes] = []

    def hands(self, queues: Sequence[str]) -> list[object]:
        """The capabilities for these queues; only what is asked for is built."""
        builders: dict[str, Callable[[], object]] = {
            "machines": lambda: Machines(MaasMachines(self._region())),
            "endpoints": lambda: Endpoints(MaasEndpoints(self._region())),
            "kubeadm": self._kubeadm,
            "kubernetes": self._kubernetes,
        }
        return [build() for queue, build in builders.items() if queue in queues]

    def books(self) -> list[object]:
        return [
            Progress(self.operations, self.clusters, self.journal),
            Sweeping(self.operations, self.clusters, self.stocks),
        ]

    async def close(self) -> None:
        """Let go of every connection that was made."""
        for client in self._clients:
            await client.close()

    def _region(self) -> Maas:
        if self._maas is None:
            maas = self._settings.maas
            self._maas = self._kept(Maas(maas.url, maas.key(), at_once=maas.at_once))
        return self._maas

    def _kubeadm(self) -> Kubeadm:
        kaas = self._settings.kaas
        nodes = SshNodes(self.vault, port=kaas.ssh_port, api_port=kaas.api_port)
        return Kubeadm(self._kept(nodes))

    def _kubernetes(self) -> Kubernetes:
        api = KubernetesApi(self.vault, resolve=self._settings.kaas.resolve)
        return Kubernetes(self._kept(api))

    def _kept(self, client: Held) -> Held:
        self._clients.append(client)
        return client


QUEUES = ("machines", "endpoints", "kubeadm", "kubernetes", BOOKS_QUEUE)


async def connect(settings: Settings) -> Client:
    """The one connection of this process. Temporal may still be starting, so we try for a while."""
    worker = settings.worker
    metrics = PrometheusConfig(bind_address=f"{worker.metrics_host}:{worker.metrics_port}")
    runtime = Runtime(telemetry=TelemetryConfig(metrics=metrics))
    deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
    while True:
        try:
            return await Client.connect(
                settings.temporal.address,
                namespace=settings.temporal.namespace,
                data_converter=pydantic_data_converter,
                runtime=runtime,
            )
        except RuntimeError as error:
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    f"Temporal at {settings.temporal.address} did not answer for "
                    f"{CONNECT_SECONDS:g} s: {error}",
                    do="start it, or set WINDLASS_TEMPORAL__ADDRESS",
                ) from error
            log.warning("temporal does not answer yet", error=str(error))
            await asyncio.sleep(1)


async def serve(settings: Settings, queues: Sequence[str]) -> None:
    """Work until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database = Database(settings.database, connections=settings.database_connections)
    crewing = Crew(settings, database)
    with suppress(Unavailable):  # a database that is away is waited for, a wrong key is not
        await crewing.vault.verify()
    client = await connect(settings)
    serving = Serving(
        slots=settings.worker.slots,
        cached_workflows=settings.worker.cached_workflows,
        graceful=timedelta(seconds=settings.worker.graceful_seconds),
        prefix=settings.temporal.queue_prefix,
        deployment=settings.worker.deployment,
        build_id=settings.worker.build_id,
    )
    books = crewing.books() if BOOKS_QUEUE in queues else []
    workers = crew(client, crewing.hands(queues), books, [Logbook(crewing.marks)], serving)
    try:
        if books:
            await schedule(client, serving.prefix, SCHEDULED)
        log.info("worker ready", queues=sorted(workers))
        await run(list(workers.values()), stop)
    finally:
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
        settings = Settings()
        start_log(settings)
        # The logbook tells how every step went; Temporal would tell it again, with a traceback.
        logging.getLogger("temporalio.activity").setLevel(logging.CRITICAL)
        uvloop.run(serve(settings, arguments or QUEUES))
    except ValidationError as error:
        return _refused(f"the settings are wrong: {error}", "windlass config show --origin")
    except MissingKeyError as error:
        return _refused(str(error), "set WINDLASS_MAAS__API_KEY or WINDLASS_MAAS__API_KEY_FILE")
    except DomainError as error:
        return _refused(error.message, error.do)
    return 0


def _refused(message: str, do: str) -> int:
    print(f"error: {message}\n  do: {do}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
