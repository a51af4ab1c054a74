"""`python -m tests.bench.bare_worker QUEUE [--dispatched]`: the bare workflows' worker, with the
clients that ours has, as the library runs it if told nothing.

Told nothing, it hands an activity to itself, since workflow and activities share a queue. What has
a queue for every class of hands cannot; `--dispatched` has Temporal give every activity out."""

import asyncio
import signal
import sys

import structlog
import uvloop
from temporalio.client import Client
from temporalio.worker import Worker

from activities.endpoints import Endpoints
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from activities.verbs import verbs
from clients.kubernetes import KubernetesApi
from clients.maas import Maas, MaasEndpoints, MaasMachines
from clients.ssh import SshNodes
from logs import start_log
from settings import Settings
from store.backups import SealedBackups
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.bench.bare import BareChangePools, BareCreateCluster, BareUpgradeCluster
from workflows import runner
from workflows.sealed import converter


async def serve(queue: str, *, dispatched: bool) -> None:
    settings = Settings()
    start_log(settings)
    kaas, maas = settings.kaas, settings.maas
    seal = Seal.from_file(settings.key_file)
    vault = Secrets(Database(settings.database), seal)
    backups = SealedBackups(settings.backups, seal, most=kaas.backups_kept)
    region = Maas(maas.url, maas.key(), at_once=maas.at_once)
    hands = [
        Machines(MaasMachines(region)),
        Endpoints(MaasEndpoints(region)),
        Kubeadm(SshNodes(vault, backups, port=kaas.ssh_port, api_port=kaas.api_port)),
        Kubernetes(KubernetesApi(vault, resolve=kaas.resolve)),
    ]
    client = await Client.connect(settings.temporal.address, data_converter=converter(seal))
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[BareCreateCluster, BareChangePools, BareUpgradeCluster],
        activities=[verb for hand in hands for verb in verbs(hand)],
        workflow_runner=runner(),
        disable_eager_activity_execution=dispatched,
    )
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with worker:
        structlog.get_logger().info("bare worker ready")
        await told.wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], dispatched="--dispatched" in sys.argv))
