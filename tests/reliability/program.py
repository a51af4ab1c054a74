"""A process that may be killed at any moment, and is started again at once with what it had
written down."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parent.parent.parent

READY_SECONDS = 60.0
LOOK_SECONDS = 0.02
FALL_SECONDS = 0.1
MOST_FALLS = 10
"""In a row, each of which is waited out a little longer."""

DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: nothing a drill starts outlives it, even if the drill is killed itself."""


class DrillError(Exception):
    """A drill cannot go on. What a drill looks for, by contrast, is counted."""


class Program:
    """One program, kept running: whenever its process ends there is another."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        ready: Callable[[], Awaitable[bool]],
        *,
        log: Path,
        user: str | None = None,
        before_restart: Callable[[], None] = lambda: None,
        restarts: bool = True,
        may_fall: bool = False,
    ) -> None:
        self.name = name
        self.may_fall = may_fall
        self.kills = 0
        self.falls: list[int] = []
        """The exit codes with which it ended unasked, which it never should."""
        self.back_seconds: list[float] = []
        """From each kill until it worked again, where somebody waited for that."""
        self._command, self._environment, self._user = command, environment, user
        self._ready, self._before_restart, self._restarts = ready, before_restart, restarts
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Start it and return once it works."""
        self._keeper = asyncio.create_task(self._keep())
        await self.wait_ready()

    async def wait_ready(self) -> None:
        deadline = monotonic() + READY_SECONDS
        while self._process is None or not await self._ready():
            if self._keeper is not None and self._keeper.done():
                raise DrillError(f"{self.name} does not stay up: {self.last_words()}")
            if monotonic() > deadline:
                raise DrillError(f"{self.name} is not ready: {self.last_words()}")
            await asyncio.sleep(LOOK_SECONDS)

    async def kill(self) -> None:
        """SIGKILL, as the kernel does it when memory is short. Returns while it starts again."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._process = None
        self.kills += 1
        _kill(process)
        await process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Tell the process, which is there."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def cpu_seconds(self) -> float:
        """What its process has worked so far. 0: there is none."""
        if self._process is None:
            return 0.0
        with suppress(OSError):
            told = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
            return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    async def kill_and_wait(self) -> None:
        began = monotonic()
        await self.kill()
        await self.wait_ready()
        self.back_seconds.append(monotonic() - began)

    async def ended(self) -> None:
        """Wait for the end of a program that is not to be started again."""
        if self._keeper is not None:
            await self._keeper

    async def stop(self) -> None:
        """Nobody is asked to drain: what a drill leaves behind is thrown away."""
        self._stopping = True
        if self._keeper is None:
            return
        told: asyncio.subprocess.Process | None = None
        while not self._keeper.done():
            if self._process is not told:  # it may just have started another
                told = self._process
                _kill(told)
            await asyncio.wait([self._keeper], timeout=LOOK_SECONDS)

    async def _keep(self) -> None:
        in_a_row = 0
        while not self._stopping:
            self._process = process = await self._spawn()
            code = await process.wait()
            self._before_restart()
            if self._stopping or not self._restarts:
                return
            if self._process is not process:  # it was killed
                in_a_row = 0
                continue
            self._process = None
            self.falls.append(code)
            in_a_row += 1
            if in_a_row > MOST_FALLS:
                return
            await asyncio.sleep(FALL_SECONDS * in_a_row)

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def last_words(self) -> str:
        return " / ".join(self._log.read_text(errors="replace").splitlines()[-8:])


def _kill(process: asyncio.subprocess.Process | None) -> None:
    with suppress(ProcessLookupError):
        if process is not None and process.returncode is None:
            process.kill()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
