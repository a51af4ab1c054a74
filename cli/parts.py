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


class Site:
    """The parts that run."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[tuple[Part, asyncio.subprocess.Process]] = []

    async def start(self, part: Part) -> None:
        """Start a part and return once it works. A Complaint names its log if it does not."""
        log = self._logs / f"{part.name}.log"
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *part.command,
                env={**part.environment, **os.environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is ours to pass on, in our order
                preexec_fn=_die_with_parent,
            )
        self._running.append((part, process))
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

    async def ended(self) -> Complaint:
        """Wait until a part ends by itself, which none should, and say which."""
        waits = {
            asyncio.create_task(process.wait()): (part, process) for part, process in self._running
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        part, process = waits[done.pop()]
        log = self._logs / f"{part.name}.log"
        return Complaint(
            f"{part.name} ended with exit code {process.returncode}; the others were stopped",
            lines=last_lines(log),
            do=f"read {log}, then start again: everything accepted goes on where it was",
        )

    async def stop(self) -> None:
        """Stop every part, the last started first, and give each its time to drain."""
        while self._running:
            _, process = self._running.pop()
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
