"""A resource manager as a process: until SIGTERM or SIGINT. What it has begun goes on, or is taken
up by the next start."""

import asyncio
import json
import signal
from collections.abc import Callable

from agent.crm.crm import Crm


async def serve(crm: Crm, cloudlet: str, tell: Callable[[str], None]) -> None:
    """One line of JSON says when it is connected."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    running = asyncio.create_task(crm.run())
    waiting = asyncio.create_task(stopped.wait())
    connected = asyncio.create_task(crm.stream.connected.wait())
    try:
        await asyncio.wait([running, waiting, connected], return_when=asyncio.FIRST_COMPLETED)
        if connected.done():
            tell(json.dumps({"cloudlet": cloudlet, "connected": True}))
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (tasks := (running, waiting, connected)):
            task.cancel()
        await asyncio.wait(tasks)
    if not running.cancelled():
        running.result()  # it ended by itself, which only an error can make it do
