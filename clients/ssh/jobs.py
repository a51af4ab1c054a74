"""Long commands as jobs of the remote system manager, so that a lost connection costs nothing.

Everything about a step lies in a directory of its own on the host:

    marker        what the step is about: a digest of what never changes about it
    config.json   what kubeadm is told; with secrets in it, so it goes when the run is over
    1/  2/  ...   one directory per attempt
      output      what the command wrote
      rc          its exit code, there once it has ended and not before

An attempt begins with making its directory. Of two that begin at once, one cannot."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import NamedTuple

from clients.ssh.connections import Connections, line, named, root
from clients.ssh.failures import Final, Passing, failure
from domain.errors import Conflict, DomainError, Unavailable
from domain.machine import Machine

HOME = "/var/lib/windlass"
STEPS = f"{HOME}/steps"

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.02, 2.0, 1.5
_LOOKS = 3
"""How often in a row a look at a job may fail."""
_TAIL_BYTES = 16_000
"""How much of what a run said is judged: an image that cannot be had fills 700 bytes."""
_RUNNING = frozenset({"active", "activating", "deactivating", "reloading", "refreshing"})
_STATES = _RUNNING | {"inactive", "failed", "maintenance"}


class Repeats(StrEnum):
    """What whoever asks for a step again gets.

    NEVER       how it ended, for good or ill; one that passed or was interrupted is begun anew
    UNTIL_DONE  another attempt, unless one has come to a good end
    ALWAYS      another attempt
    """

    NEVER = "never"
    UNTIL_DONE = "until-done"
    ALWAYS = "always"


class Step(NamedTuple):
    """Something done to a host. `about` is what makes it this step and no other, and stays the
    same however often it is tried."""

    name: str
    command: tuple[str, ...]
    about: tuple[str, ...]
    passing: tuple[Passing, ...] = ()
    """What may go wrong with it for a while."""
    clean: tuple[str, ...] = ()
    """The command that clears away what an earlier attempt has left."""
    repeats: Repeats = Repeats.NEVER
    final: tuple[Final, ...] = ()
    """What may go wrong with it for good, where we know what to do next."""
    last: tuple[Final, ...] = ()
    """What is for good if it does not pass."""
    title: str = ""
    """How messages call it. Empty: by its first two words."""

    @property
    def directory(self) -> str:
        return f"{STEPS}/{self.name}"

    @property
    def config(self) -> str:
        return f"{self.directory}/config.json"

    @property
    def unit(self) -> str:
        return f"windlass-{self.name}.service"

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.about).encode()).hexdigest()


class Seen(NamedTuple):
    """How a step stands on its host."""

    running: bool
    attempt: int = 0
    """The last one; 0 if there was none."""
    status: int | None = None
    """The last attempt's exit code. None: there is none, or not yet, or the host restarted."""
    digest: str = ""


class Jobs:
    """Steps on hosts."""

    def __init__(self, connections: Connections, *, job_seconds: float) -> None:
        self._connections = connections
        self._job_seconds = job_seconds

    async def carry_out(
        self, machine: Machine, step: Step, configure: Callable[[Seen], Awaitable[str]]
    ) -> None:
        """Do the step, or wait for whoever does it, or find it done. `configure` makes its
        configuration, and is asked only if there is an attempt to begin.

        A step that never repeats and failed for good fails again without being tried; one that
        failed for the moment, or was interrupted, is cleared away and begun anew. One that may
        repeat forgets what it was about before."""
        seen = await self.look(machine, step)
        if seen.digest not in ("", step.digest):
            if seen.running or step.repeats is Repeats.NEVER:
                raise Conflict(
                    f"{named(machine)} went through {step.name} for something else already",
                    subject=machine.slot.name,
                )
            await self.forget(machine, step.name)
            seen = Seen(running=False)
        attempt = max(seen.attempt, 1)
        if step.repeats is not Repeats.ALWAYS and seen.status == 0:
            return
        if not seen.running:
            if step.repeats is Repeats.NEVER and seen.status:
                error = await self._failure(machine, step, attempt, seen.status)
                if not isinstance(error, Unavailable):
                    raise error
            attempt = seen.attempt + 1
            await self._prepare(machine, step, await configure(seen))
            await self._start(machine, step, attempt)
        if status := await self._finish(machine, step, attempt):
            raise await self._failure(machine, step, attempt, status)

    async def look(self, machine: Machine, step: Step) -> Seen:
        """How the step stands."""
        running, (digest, *names) = await self._ask(
            machine,
            step,
            line("cat", f"{step.directory}/marker") + " 2>/dev/null",
            "echo",
            line("ls", "-1", step.directory) + " 2>/dev/null",
        )
        attempt = max((int(name) for name in names if name.isdigit()), default=0)
        seen = Seen(running, attempt, None, digest)
        if seen.running or not attempt:
            return seen
        return seen._replace(status=(await self._poll(machine, step, attempt)).status)

    async def is_done(self, machine: Machine, step: Step) -> bool:
        """Whether this very step has come to a good end."""
        seen = await self.look(machine, step)
        return not seen.running and seen.digest == step.digest and seen.status == 0

    async def see_out(self, machine: Machine, step: Step) -> bool:
        """Wait until no attempt at this very step runs, and begin none. Whether it has come to a
        good end."""
        pause = _FIRST_PAUSE
        async with self._in_time(machine, step):
            while True:
                seen = await self.look(machine, step)
                if seen.digest != step.digest:
                    return False
                if not seen.running and (seen.status == 0 or await self._bar(machine, step, seen)):
                    return seen.status == 0
                await asyncio.sleep(pause)
                pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    async def _bar(self, machine: Machine, step: Step, seen: Seen) -> bool:
        """Take the next attempt's place, so that one whose order is still on its way to the host
        does nothing when it gets there. False if it has got there."""
        directory = f"{step.directory}/{seen.attempt + 1}"
        answer = await self._connections.run(machine, root("mkdir", directory))
        if answer.status and (await self.look(machine, step)).attempt == seen.attempt:
            answer.succeeded(machine)
        return answer.status == 0

    async def stop(self, machine: Machine, *names: str) -> None:
        """End what runs of these steps, wherever it stands."""
        for name in names:
            step = Step(name, (), ())
            if (await self.look(machine, step)).running:
                command = root("systemctl", "stop", step.unit)
                (await self._connections.run(machine, command)).succeeded(machine)

    async def forget(self, machine: Machine, *names: str) -> None:
        """As if these steps had never been tried."""
        command = root("rm", "-rf", *(f"{STEPS}/{name}" for name in names))
        (await self._connections.run(machine, command)).succeeded(machine)

    async def _prepare(self, machine: Machine, step: Step, config: str) -> None:
        """Put the step's files in place, the one with secrets last."""
        owner = self._connections.user
        directories = (HOME, STEPS, step.directory)
        command = root("install", "-d", "-m", "0700", "-o", owner, *directories)
        (await self._connections.run(machine, command)).succeeded(machine)
        await self._connections.put(machine, f"{step.directory}/marker", step.digest)
        if config:
            await self._connections.put(machine, step.config, config)

    async def _start(self, machine: Machine, step: Step, attempt: int) -> None:
        """Begin an attempt. If it has begun already, or another runs, this does nothing."""
        command = root(
            "systemd-run",
            f"--unit={step.unit}",
            "--collect",
            "--quiet",
            "--",
            "/bin/sh",
            "-c",
            _script(step, attempt),
        )
        try:
            answer = await self._connections.run(machine, command)
        except Unavailable:
            seen = await self.look(machine, step)
            if seen.running or seen.attempt >= attempt:
                return
            raise
        if answer.status and "already" not in answer.err:
            answer.succeeded(machine)

    async def _finish(self, machine: Machine, step: Step, attempt: int) -> int:
        """Wait for an attempt's end, and return its exit code."""
        async with self._in_time(machine, step):
            return await self._ended(machine, step, attempt)

    @asynccontextmanager
    async def _in_time(self, machine: Machine, step: Step) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._job_seconds):
                yield
        except TimeoutError as error:
            raise Unavailable(
                f"{step.name} on {named(machine)} still runs after {self._job_seconds:.0f} s"
            ) from error

    async def _ended(self, machine: Machine, step: Step, attempt: int) -> int:
        pause, failures = _FIRST_PAUSE, 0
        while True:
            try:
                seen = await self._poll(machine, step, attempt)
            except Unavailable:
                failures += 1
                if failures == _LOOKS:
                    raise
            else:
                failures = 0
                if seen.status is not None:
                    return seen.status
                if not seen.running:
                    raise Unavailable(
                        f"{step.name} on {named(machine)} was interrupted before its end",
                        reason="INTERRUPTED",
                    )
            await asyncio.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    async def _failure(
        self, machine: Machine, step: Step, attempt: int, status: int
    ) -> DomainError:
        """What an attempt that ended badly means, from the end of what it wrote."""
        path = f"{step.directory}/{attempt}/output"
        output = await self._read(machine, line("tail", "-c", str(_TAIL_BYTES), path))
        what = f"{step.title or ' '.join(step.command[:2])} on {named(machine)}"
        return failure(
            what,
            status,
            output,
            step.passing,
            final=step.final,
            last=step.last,
            again=attempt > 1,
        )

    async def _poll(self, machine: Machine, step: Step, attempt: int) -> Seen:
        """The unit is asked first: one that has ended has left its exit code by then."""
        read = line("cat", f"{step.directory}/{attempt}/rc") + " 2>/dev/null"
        running, status = await self._ask(machine, step, read)
        return Seen(running, attempt, int(status[0]) if status else None)

    async def _ask(self, machine: Machine, step: Step, *others: str) -> tuple[bool, list[str]]:
        """Whether the step's unit runs, and what other commands wrote after that. A system manager
        that is just being replaced says nothing, and their words must not be taken for its own."""
        show = line("systemctl", "show", "--property=ActiveState", "--value", step.unit)
        written = await self._read(machine, "; ".join((show, *others)))
        state, *lines = written.splitlines() or [""]
        if state not in _STATES:
            raise Unavailable(f"{named(machine)} did not say how {step.name} stands")
        return state in _RUNNING, lines

    async def _read(self, machine: Machine, command: str) -> str:
        """What a command wrote that only looks: its exit code says nothing."""
        return (await self._connections.run(machine, command)).out


def _script(step: Step, attempt: int) -> str:
    """An attempt, for a shell. The exit code appears in one piece, after all that belongs to it."""
    directory = f"{step.directory}/{attempt}"
    cleaning = [f"{line(*step.clean)} > {directory}/before 2>&1"] if attempt > 1 else []
    return "\n".join(
        (
            f"mkdir {directory} || exit 0",
            *(cleaning if step.clean else ()),
            f"{line(*step.command)} > {directory}/output 2>&1",
            f"echo $? > {directory}/rc.new",
            f"rm -f {step.config}*",
            "sync",
            f"mv {directory}/rc.new {directory}/rc",
        )
    )
