"""The processes that `windlass up` runs: started in order, watched, and stopped in reverse."""

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cli.complaints import Complaint

READY_SECONDS = 60.0
"""How long a part may take to come up on a slow machine."""

STOP_SECONDS = 45.0
"""How long a part may take to drain; longer than any of them gives its own work."""

FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 1.0, 30.0
"""Before a part that has ended is started again: the longer, the sooner it ended each time."""

STEADY_SECONDS = 60.0
"""A part that ran for so long begins with the shortest pause again."""

LOOK_SECONDS = 0.05
TAIL_LINES = 5
DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: what we started must not outlive us, however we end."""


@dataclass(frozen=True)
class Part:
    """One process, where it listens, and how to tell that it works."""

    name: str
    command: Sequence[str]
    ready: Callable[[], Awaitable[bool]]
    listens: dict[str, str] = field(default_factory=dict)
    """Its addresses, HOST:PORT, by the setting that would move them."""
    environment: dict[str, str] = field(default_factory=dict)
    """What is set for it alone, unless it is set for all."""


@dataclass
class Running:
    """A part, and the process that it is at the moment."""

    part: Part
    process: asyncio.subprocess.Process


class Site:
    """The parts that run."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[Running] = []
        self.ends = 0
        """How often a part has ended by itself."""

    async def start(self, part: Part) -> None:
        """Start a part and return once it works. A Complaint names its log if it does not."""
        log = self._logs / f"{part.name}.log"
        process = await self._process(part, log)
        self._running.append(Running(part, process))
        await _works(part, process, log)

    async def _process(self, part: Part, log: Path) -> asyncio.subprocess.Process:
        with log.open("ab") as file:
            return await asyncio.create_subprocess_exec(
                *part.command,
                env={**part.environment, **os.environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is ours to pass on, in our order
                preexec_fn=_die_with_parent,
            )

    async def tend(self, say: Callable[[str], None]) -> None:
        """Start every part again that ends by itself, and say so, until cancelled. What one of them
        had accepted is in the database or in Temporal, and goes on."""
        async with asyncio.TaskGroup() as tending:
            for running in self._running:
                tending.create_task(self._tended(running, say))

    async def _tended(self, running: Running, say: Callable[[str], None]) -> None:
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
        log = self._logs / f"{running.part.name}.log"
        while True:
            began = loop.time()
            code = await running.process.wait()
            self.ends += 1
            if loop.time() - began >= STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            say(
                f"{running.part.name} ended with exit code {code} (read {log}); it is started "
                f"again in {pause:g} s"
            )
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE_SECONDS)
            running.process = await self._process(running.part, log)
            try:
                await _works(running.part, running.process, log)
            except Complaint as complaint:
                say(str(complaint))
            else:
                say(f"{running.part.name} is up again")

    async def stop(self) -> None:
        """Stop every part, the last started first, and give each its time to drain."""
        while self._running:
            process = self._running.pop().process
            if process.returncode is not None:
                continue
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


async def _works(part: Part, process: asyncio.subprocess.Process, log: Path) -> None:
    """Wait until a part works. A Complaint says why it does not."""
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    while not await part.ready():
        if process.returncode is not None:
            raise Complaint(
                f"{part.name} ended at once with exit code {process.returncode}",
                lines=last_lines(log),
                do=f"read {log}",
            )
        if asyncio.get_running_loop().time() > deadline:
            raise Complaint(
                f"{part.name} did not come up within {READY_SECONDS:g} s",
                lines=last_lines(log),
                do=f"read {log}",
            )
        await asyncio.sleep(LOOK_SECONDS)


def refuse_taken_ports(parts: Sequence[Part]) -> None:
    """Complain about the first address that somebody else listens on, before anything starts."""
    for part in parts:
        for setting, address in part.listens.items():
            host, _, port = address.rpartition(":")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, int(port)))
                except OSError as error:
                    raise Complaint(
                        f"{part.name} cannot listen on {address}: {os.strerror(error.errno or 0)}",
                        do=f"stop what listens there (ss -ltnp 'sport = :{port}'), "
                        f"or set {setting} to another",
                    ) from error


async def listening(address: str) -> bool:
    """Whether somebody accepts connections there."""
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def answers(url: str) -> bool:
    """Whether an HTTP GET there is answered with 200."""
    import urllib.error
    import urllib.request

    def get() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2) as reply:  # noqa: S310 (our own address)
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    return await asyncio.to_thread(get)


def last_lines(log: Path) -> list[str]:
    """How a log ends, for whoever does not want to open it."""
    try:
        return log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGTERM)
