"""One simulated host: what its disks and its running system hold, and what it is doing."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, Field

from domain.frozen import Frozen
from sim.clusters import SimulatedClusters
from sim.faults import Faults
from sim.hosts.disk import Disk
from sim.ledger import Ledger, Record
from sim.metal import Installed
from sim.pace import Clock, Pace

Result = TypeVar("Result")

_CONTAINER = re.compile(r"(?<=--exec-id )\S+ [0-9a-f]{64}")
"""How ctr is told of a container, which is no secret though it looks like one."""

_SECRETS = (
    ("a bootstrap token", re.compile(r"(?<![a-z0-9.])[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9.])")),
    ("a certificate key", re.compile(r"(?<![0-9a-f:])[0-9a-f]{64}(?![0-9a-f])")),
    ("a private key", re.compile(r"PRIVATE KEY")),
)


class Kind(StrEnum):
    """What kubeadm has made of a host.

    NONE              nothing, yet or again
    PREFLIGHT_FAILED  nothing; it was tried and refused
    PARTIAL           an init or join ended halfway: files are there, no node
    CONTROL_PLANE     a control-plane node
    WORKER            a worker node
    RESET             nothing again: it was something
    """

    NONE = "none"
    PREFLIGHT_FAILED = "preflight-failed"
    PARTIAL = "partial"
    CONTROL_PLANE = "control-plane"
    WORKER = "worker"
    RESET = "reset"


NODES = frozenset({Kind.CONTROL_PLANE, Kind.WORKER})


class Run(BaseModel):
    """One run of kubeadm that changes the host. It has no end while it runs."""

    verb: str
    started: float
    ended: float | None = None
    result: str = ""
    """`ok`, `exit 1: ...` or `interrupted`."""
    unit: str = ""
    phase: int = 0
    """How many of its phases are done."""
    cluster: str = ""
    name: str = ""


class Progress(BaseModel):
    """How far a unit's script has come."""

    done: int = 0
    status: int = 0
    begun: bool = False
    """Whether the link after those done was being run."""


class Unit(BaseModel):
    """A command that systemd runs in the background."""

    words: list[str]
    started: float
    progress: Progress = Field(default_factory=Progress)


class Kubeadm(BaseModel):
    kind: Kind = Kind.NONE
    cluster: str = ""
    name: str = ""
    """The node's name, which need not be the host's."""
    runs: list[Run] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)
    """How often each verb was called, those that change nothing included."""


class FirstBoot(Frozen):
    """What cloud-init finds in the user data."""

    hostname: str = ""
    users: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Who may log in, and the authorized keys of each."""
    files: tuple[tuple[str, str, int, str], ...] = ()
    """Path, content, mode, owner."""
    packages: tuple[str, ...] = ()
    """As apt is told: `kubeadm` or `kubeadm=1.31.4-1.1`."""
    commands: tuple[str, ...] = ()
    fault: str = ""
    """Why the user data could not be used."""


class HostState(Record):
    """Everything about a host that survives the site's process, apart from its files."""

    machine: Installed
    powered: bool = True
    host_key: str
    boot_id: str
    answers_from: float
    """When its SSH server is up, on the site's clock."""
    settled_from: float
    """When cloud-init is through with the first boot."""
    settled: bool = False
    cloud_init_error: str = ""
    first_boot: FirstBoot
    packages: dict[str, str] = Field(default_factory=dict)
    held: list[str] = Field(default_factory=list)
    half_installed: bool = False
    """Whether a reboot came in the middle of an installation: nothing more is installed until that
    is put in order."""
    units: dict[str, Unit] = Field(default_factory=dict)
    kubeadm: Kubeadm = Field(default_factory=Kubeadm)
    violations: list[str] = Field(default_factory=list)


class Connection(Protocol):
    def abort(self) -> None:
        """Gone, without a word to the other side."""


@dataclass
class Shared:
    """What all hosts of a site share."""

    ledger: Ledger
    faults: Faults
    clock: Clock
    pace: Pace
    clusters: SimulatedClusters
    resolve: Callable[[str], Sequence[str]] | None
    """Which addresses a name leads to. None: every name leads to the cluster that bears it."""
    reboot: Callable[[str], None]
    """Restart the host with this system id, soon."""
    run_unit: Callable[["Host", str], Coroutine[Any, Any, int]]
    """Carry out a unit's command, from where it stands to its end."""


class Host:
    """A host and what is going on inside it."""

    def __init__(self, shared: Shared, state: HostState, disk: Disk) -> None:
        self.shared = shared
        self.state = state
        self.disk = disk
        self.connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._units: dict[str, asyncio.Task[None]] = {}

    @property
    def id(self) -> str:
        return self.state.machine.system_id

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self.state.first_boot.hostname or self.state.machine.hostname

    @property
    def address(self) -> str:
        return self.state.machine.address

    def keep(self) -> None:
        """Remember the state as it is now."""
        self.shared.ledger.keep("host", self.id, self.state)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Let something run until it ends or the host does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def begin_unit(self, name: str, unit: Unit) -> None:
        """Let systemd run a command in the background. A unit that was begun already goes on
        from where it stands."""
        self.state.units[name] = unit
        self.keep()
        self._units[name] = self.spawn(self._unit(name))

    async def _unit(self, name: str) -> None:
        await self.shared.run_unit(self, name)
        del self.state.units[name], self._units[name]
        self.keep()

    async def stop_unit(self, name: str) -> None:
        """End a unit's command where it stands."""
        task = self._units.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.state.units.pop(name, None)
        self.end_runs("killed", unit=name)

    def end_runs(self, result: str, unit: str | None = None) -> None:
        """Record that what kubeadm was doing, in one unit or anywhere, came to a sudden end."""
        for run in self.state.kubeadm.runs:
            if run.ended is None and unit in (None, run.unit):
                run.ended, run.result = self.shared.clock.now(), result
        self.keep()

    def drop_connections(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        self.connections.clear()

    async def halt(self) -> None:
        """Everything that runs stops where it is. Nothing is recorded: this is how a killed
        process leaves it."""
        self.drop_connections()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def see_words(self, words: list[str]) -> None:
        """Note a secret on a command line, where everyone on the host can read it."""
        line = _CONTAINER.sub("", " ".join(words))
        for what, pattern in _SECRETS:
            if pattern.search(line):
                self.note(f"{what} on the command line of {words[0]}")

    def note(self, violation: str) -> None:
        self.state.violations.append(f"{self.id}: {violation}")
        self.keep()
