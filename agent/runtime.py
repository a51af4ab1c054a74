"""What carries pods on a node, whatever that is: the promise that all runtimes keep.

A pod is known to a runtime by its id, and every method may be called again: what is there is not
made twice, what runs is not started twice, what is gone is gone. A runtime never restarts anything
by itself, since that is decided by whoever ordered it."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from domain.frozen import Frozen
from domain.placement import Amounts
from domain.pod import Image, Pairs

APP = "app"
"""The name of the one app that our pods have."""


class PortMap(Frozen):
    source: int
    """Outside, on the host. 0: any free one."""
    destination: int


class Spec(Frozen):
    """A pod as it is ordered."""

    pod: str
    instance: str
    name: str
    uri: str
    environment: Pairs = ()
    command: tuple[str, ...] = ()
    """Instead of the image's own. Words, which no shell reads."""
    probe: tuple[str, ...] = ()
    """The command that its health is asked with, beside it."""
    limits: Amounts = Amounts()
    """0: none."""
    ports: tuple[PortMap, ...] = ()
    ip: str = ""


UNKNOWN_EXIT = -1
"""The exit code of what ended while nobody watched."""


class Condition(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    GONE = "gone"
    """There is nothing of it."""


class Seen(Frozen):
    """A pod as the runtime has it."""

    pod: str
    condition: Condition
    pid: int = -1
    exit_code: int = 0
    """-1: nobody knows."""
    oom: bool = False
    """Whether it was ended for taking more memory than it may."""
    lost: bool = False
    """Whether nobody knows how it ended."""
    created_ns: int = 0
    """When the runtime made what it runs in, by its own record."""
    started_ns: int = 0
    finished_ns: int = 0
    cgroup: str = ""
    network: str = ""
    ip: str = ""
    ports: tuple[PortMap, ...] = ()
    log: Path | None = None
    """Where its output lies, in the form of `domain/logline.py`."""


class Output(Frozen):
    """What a command that was run beside an app has said."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


class Info(Frozen):
    name: str
    version: str = ""
    isolates: bool = False
    """Whether pods have addresses and files of their own."""


class Runtime(Protocol):
    async def open(self, subnet: str) -> Info:
        """Be ready, with addresses for pods out of this block. Unavailable says what is missing."""

    async def close(self) -> None:
        """Let go of what is held open. Pods run on."""

    async def fetch(self, uri: str, credentials: str = "") -> Image:
        """Have an image here, with what opens its registry. Those who ask for the same one at once
        share the work."""

    async def images(self) -> Sequence[Image]: ...

    async def remove_image(self, id: str) -> None:
        """Conflict if a pod is made of it."""

    async def create(self, spec: Spec) -> None:
        """Make what it will run in. Its image is there."""

    async def start(self, pod: str) -> None: ...

    async def stop(self, pod: str, grace_seconds: float) -> None:
        """Ask it to end, and see to it after the grace. Answered once it has."""

    async def remove(self, pod: str) -> None:
        """Kill it if it runs, and leave nothing of it."""

    async def inspect(self, pod: str) -> Seen: ...

    async def list(self) -> Sequence[Seen]:
        """All that are here, those that ended included."""

    async def wait(self, pod: str) -> Seen:
        """Answered once it does not run."""

    async def usage(self, pod: str) -> Amounts: ...

    async def exec(self, pod: str, command: Sequence[str], timeout_seconds: float) -> Output:
        """Run a command beside the app. Conflict if it does not run, Overdue if it takes longer.
        The command ends with the call at the latest."""
