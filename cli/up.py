"""`windlass up`: a whole site on this machine, with its first cluster, until Ctrl-C.

It starts the processes that a site is made of and then uses them as anybody would, over gRPC."""

import asyncio
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from cli.complaints import Code, Complaint, complain
from cli.parts import Part, Site, answers, listening, refuse_taken_ports

if TYPE_CHECKING:
    from rich.console import Console

    from cli.calling import Call
    from settings import Settings

FIRST = "hello"
POOL, WORKERS = "worker", 2


async def run(call: "Call", *, cluster: bool = True) -> int:
    """Start everything, create the first cluster unless it is there, and stay until told to stop.

    A second run in the same folder finds everything as it was."""
    from cli.config import loaded

    settings = loaded()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with _alone(settings.state):
        site = Site(_made(settings.state / "log"))
        parts = _parts(settings)
        refuse_taken_ports(parts)
        try:
            work = asyncio.create_task(_whole(call, settings, site, parts, cluster=cluster))
            return await _until(stop, work)
        finally:
            call.page.err.print("stopping …")
            await site.stop()


async def _until(stop: asyncio.Event, work: "asyncio.Task[int]") -> int:
    told = asyncio.create_task(stop.wait())
    await asyncio.wait([work, told], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        told.cancel()
        return work.result()
    work.cancel()
    await asyncio.wait([work])
    return Code.OK


async def _whole(
    call: "Call", settings: "Settings", site: Site, parts: Sequence[Part], *, cluster: bool
) -> int:
    out, began = call.page.out, monotonic()
    for part in parts:
        await site.start(part)
        if part.name == "temporal" or len(parts) and part is parts[0]:
            pass
        out.print(f"{monotonic() - began:5.1f} s  {part.name} is up")
    if cluster:
        await _first_cluster(call, out)
    out.print(_summary(settings, cluster=cluster))
    complaint = await site.ended()
    complain(call.page, complaint)
    return complaint.code
