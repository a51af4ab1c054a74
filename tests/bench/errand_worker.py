"""`python -m tests.bench.errand_worker QUEUE`: the worker of the bare errand, as the library runs
it if told nothing. Nothing is written down but what Temporal keeps."""

import asyncio
import signal
import sys

import structlog
import uvloop
from temporalio.client import Client
from temporalio.worker import Worker

from logs import start_log
from settings import Settings
from tests.bench.errand import BareErrand, ask
from workflows import runner


async def serve(queue: str) -> None:
    settings = Settings()
    start_log(settings)
    worker = Worker(
        await Client.connect(settings.temporal.address),
        task_queue=queue,
        workflows=[BareErrand],
        activities=[ask],
        workflow_runner=runner(),
    )
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with worker:
        structlog.get_logger().info("bare worker ready")
        await told.wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
