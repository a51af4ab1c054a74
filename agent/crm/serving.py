"""Resource managers as a process: until SIGTERM or SIGINT. What they have begun goes on, or is
taken up by the next start."""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping

from agent.crm.crm import Crm


async def serve(crms: Mapping[str, Crm], tell: Callable[[str], None]) -> None:
    """Manage cloudlets, by their names. A line of JSON for each says when it is connected."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    working = [asyncio.create_task(_managed(name, crm, tell)) for name, crm in crms.items()]
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait([*working, waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *working):
        task.cancel()
    await asyncio.wait([waiting, *working])
    for task in working:
        if not task.cancelled():
            task.result()  # it ended by itself, which only an error can make it do


async def _managed(name: str, crm: Crm, tell: Callable[[str], None]) -> None:
    running = asyncio.create_task(crm.run())
    connected = asyncio.create_task(crm.stream.connected.wait())
    try:
        await asyncio.wait([running, connected], return_when=asyncio.FIRST_COMPLETED)
        if connected.done():
            tell(json.dumps({"cloudlet": name, "connected": True}))
        await running
    finally:
        for task in (running, connected):
            task.cancel()
        await asyncio.wait([running, connected])
