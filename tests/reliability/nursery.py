"""Workers that are there at once, each in a process of its own, so that they can be killed.

    python nursery.py

For every line of JSON a process is forked from this one, in which everything a worker needs is
loaded already, and its number is printed. It works in the world that is served at `world`, until
it is killed, or this one ends."""

import asyncio
import ctypes
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import uvloop
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.endpoints import Endpoints
from activities.healing import Healing
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.logbook import Logbook
from activities.machines import Machines
from activities.progress import Progress
from activities.quarantine import Quarantine
from activities.steering import Steering
from activities.sweeping import Sweeping
from activities.tending import Tending
from activities.watching import Rhythm, Watching
from domain.health import Tolerance
from domain.quarantine import Terms
from domain.repairs import Prudence
from store import quarantine
from store import steering as steers
from store.clusters import Clusters
from store.engine import Database
from store.journal import Journal
from store.marks import Marks
from store.operations import Operations
from store.repairs import Repairs
from store.sealing import Seal
from store.secrets import Secrets
from store.stocks import Stocks
from store.tail import Tail
from store.tracked import Terms as EdgeTerms
from store.tracking import Tracking
from store.watches import Watches
from tests.reliability.far_world import FarPort
from tests.reliability.hurry import Hurry
from tests.reliability.program import DIES_WITH_PARENT
from workflows.serving import Serving, crew

RHYTHM = Rhythm(look_seconds=0.2, inspect_seconds=1)
TOLERANCE = Tolerance(silent_seconds=1)
APPROVAL = timedelta(minutes=1)


async def work(database_url: str, key_file: str, temporal: str, prefix: str, world: str) -> None:
    """Serve all queues, as a worker of ours does, in a world that is elsewhere."""
    database = Database(database_url)
    clusters = Clusters(database, Secrets(database, Seal.from_file(Path(key_file))))
    operations, journal = Operations(database), Journal(database, Tail(database))
    watches = Watches(database)

    def port(system: str) -> Any:
        return FarPort(Path(world), system)

    client = await Client.connect(temporal, data_converter=pydantic_data_converter)
    workers = crew(
        client,
        [
            Machines(port("maas")),
            Endpoints(port("names")),
            Kubeadm(port("hosts")),
            Kubernetes(port("api")),
            Watching(
                watches,
                port("api"),
                port("maas"),
                port("hosts"),
                port("names"),
                RHYTHM,
                TOLERANCE,
            ),
        ],
        [
            Progress(operations, clusters, journal),
            Sweeping(
                operations,
                clusters,
                Tracking(database, EdgeTerms()),
                Stocks(database),
                watches,
            ),
            Steering(steers.Steering(database), approval=APPROVAL),
            Tending(watches, TOLERANCE),
            Quarantine(quarantine.Quarantine(database, Terms())),
            Healing(Repairs(database, Prudence())),
        ],
        [Logbook(Marks(database)), Hurry()],
        Serving(prefix=prefix),
    )
    await asyncio.gather(*(worker.run() for worker in workers.values()))


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that were killed
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where numbers are read, no warnings
            uvloop.run(work(**json.loads(line)))
            os._exit(1)  # a worker ends by being killed
        print(number, flush=True)


if __name__ == "__main__":
    main()
