"""A place to measure in: a site with its processes, on ports and state that nobody else has."""

import asyncio
import ctypes
import json
import os
import secrets
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import psutil
from temporalio.client import Client

from cli.parts import last_lines, listening
from domain import devserver
from domain.releases import Catalogue
from settings import Settings
from store import schema
from store.sealing import Seal
from workflows.sealed import converter

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable

READY_SECONDS = 60.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.02
SAMPLE_SECONDS = 0.1
DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: nothing that the bench starts outlives it."""

PACES = ("deploy", "boot", "cloud_init", "release", "initialise", "join", "node_ready", "upgrade")


@dataclass
class Part:
    """One process of ours, and the most memory it was seen with."""

    name: str
    process: Process
    log: Path
    peak_bytes: int = 0

    def cpu_seconds(self) -> float:
        """What it has used of the processors so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def memory_bytes(self) -> int:
        """How much memory it has now."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def look(self) -> None:
        """Take note of that."""
        with suppress(psutil.Error):
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes())

    async def told(self, event: str) -> dict[str, str]:
        """The JSON line with that event in its log, once it is there."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                return await self._line(event)
        except TimeoutError as error:
            said = "\n".join(last_lines(self.log))
            raise RuntimeError(f"{self.name} does not say {event!r}:\n{said}") from error

    async def _line(self, event: str) -> dict[str, str]:
        while True:
            for raw in self.log.read_text().splitlines():
                with suppress(ValueError):
                    line: dict[str, str] = json.loads(raw)
                    if line.get("event") == event:
                        return line
            self.refuse_end()
            await asyncio.sleep(LOOK_SECONDS)

    async def listens(self, address: str) -> None:
        """Return once somebody accepts connections there."""
        async with asyncio.timeout(READY_SECONDS):
            while not await listening(address):
                self.refuse_end()
                await asyncio.sleep(LOOK_SECONDS)

    def refuse_end(self) -> None:
        """None of our processes ends by itself."""
        if self.process.returncode is not None:
            said = "\n".join(last_lines(self.log))
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{said}")

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
            except TimeoutError:
                self.process.kill()
        await self.process.wait()


@dataclass
class Place:
    """The processes of one place, by name, and what they were told."""

    state: Path
    environment: dict[str, str]
    parts: dict[str, Part] = field(default_factory=dict)
    grpc: str = ""
    """Where the API is."""

    @property
    def temporal(self) -> str:
        return self.environment["WINDLASS_TEMPORAL__ADDRESS"]

    @property
    def site(self) -> str:
        """Where the simulated site is, if there is one."""
        return f"http://127.0.0.1:{self.environment['WINDLASS_SITE__PORT']}"

    @property
    def settings(self) -> Settings:
        """What the processes read from their environment, for whoever acts beside them."""
        return Settings(
            database=self.environment["WINDLASS_DATABASE"],
            key_file=Path(self.environment["WINDLASS_KEY_FILE"]),
        )

    def offer(self, catalogue: Catalogue) -> None:
        """Have these releases on offer, from the next start of a process on."""
        entries = (f'{{version="{r.version}", series="{r.series}"}}' for r in catalogue.releases)
        text = f'default = "{catalogue.default}"\nreleases = [{", ".join(entries)}]\n'
        path = self.state / "catalogue.toml"
        path.write_text(text)
        self.environment["WINDLASS_CATALOGUE"] = str(path)

    async def start(self, name: str, *command: str, **more: str) -> Part:
        """Start a process, told as all others and a little more."""
        log = self.state / f"{name}.log"
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=ROOT,
                env={**self.environment, **more},
                stdin=DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is ours to pass on, in our order
                preexec_fn=_die_with_parent,
            )
        part = self.parts[name] = Part(name, process, log)
        return part

    async def start_api(self) -> None:
        api = await self.start("api", PYTHON, "-m", "api")
        self.grpc = (await api.told("ready"))["grpc"]

    async def start_worker(self) -> None:
        worker = await self.start("worker", PYTHON, "worker.py")
        await worker.told("worker ready")

    async def end(self, *names: str) -> None:
        """Stop some processes, whose work is done."""
        for name in names:
            await self.parts.pop(name).stop()

    async def stop(self) -> None:
        """Stop every process, the last started first."""
        await self.end(*reversed(self.parts))

    def cpu(self, *, since: Mapping[str, float] | None = None) -> dict[str, float]:
        """Seconds of processor that every process has used, in all or since then."""
        return {
            name: part.cpu_seconds() - (since or {}).get(name, 0.0)
            for name, part in self.parts.items()
        }

    async def client(self) -> Client:
        """One that reads what our processes write there."""
        seal = Seal.from_file(self.settings.key_file)
        return await Client.connect(self.temporal, data_converter=converter(seal))

    async def sample(self) -> None:
        """Take note of every process's memory, until cancelled."""
        while True:
            for part in self.parts.values():
                part.look()
            await asyncio.sleep(SAMPLE_SECONDS)


@asynccontextmanager
async def place(
    *,
    machines: int = 0,
    database: str = "",
    worker: bool = True,
    catalogue: Catalogue | None = None,
    ceph: bool = False,
    more: Mapping[str, str] | None = None,
) -> AsyncIterator[Place]:
    """Temporal and the API; with `machines` a simulated site that takes no time, and with `worker`
    somebody who works; the site's Ceph is looked at only if it is wanted. The database is a SQLite
    file unless another is named, and what is built in is on offer unless there is another
    catalogue. `more`: what else is set, by the names of the environment."""
    with TemporaryDirectory(prefix="windlass-bench-") as folder:
        place = Place(Path(folder), _environment(Path(folder), machines, database))
        place.environment.update(more or {})
        if catalogue is not None:
            place.offer(catalogue)
        if ceph:
            place.environment["WINDLASS_CEPH__URLS"] = f'["{place.site}/ceph"]'
        await schema.upgrade(place.environment["WINDLASS_DATABASE"])
        try:
            temporal = await place.start("temporal", *_temporal(place))
            await temporal.listens(place.temporal)
            if machines:
                site = await place.start("site", PYTHON, "-m", "sim")
                await site.listens(f"127.0.0.1:{place.environment['WINDLASS_SITE__PORT']}")
            await place.start_api()
            if worker:
                await place.start_worker()
            yield place
        finally:
            await place.stop()


def _environment(state: Path, machines: int, database: str) -> dict[str, str]:
    ours = {
        "STATE": str(state),
        "DATABASE": database or f"sqlite+aiosqlite:///{state}/windlass.db",
        "KEY_FILE": str(state / "seal.key"),
        "GRPC_ADDRESS": "127.0.0.1:0",
        "HTTP_ADDRESS": "127.0.0.1:0",
        "LOG_FORMAT": "json",
        "TEMPORAL__ADDRESS": f"127.0.0.1:{free_port()}",
        "WORKER__METRICS_PORT": "0",
        "WORKER__GRACEFUL_SECONDS": "1",
        "MAAS__URL": f"http://127.0.0.1:{(site_port := free_port())}/MAAS/",
        "MAAS__API_KEY": ":".join(secrets.token_hex(9) for _ in range(3)),
        "CEPH__URLS": "[]",
        "KAAS__SSH_PORT": str(free_port()),
        "SITE__PORT": str(site_port),
        "SITE__MACHINES": str(machines),
        "SITE__NETWORK": f"127.{100 + secrets.randbelow(100)}",
        **{f"SITE__PACE__{pace.upper()}": "0" for pace in PACES},
    }
    inherited = {
        name: value
        for name, value in os.environ.items()
        if "WINDLASS" not in name and name != "PYTHONDONTWRITEBYTECODE"
    }
    compiled = {"PYTHONPYCACHEPREFIX": str(Path(gettempdir()) / "windlass-bench-compiled")}
    return {**inherited, **compiled, **{f"WINDLASS_{name}": ours[name] for name in ours}}


def _temporal(place: Place) -> list[str]:
    host, _, port = place.temporal.rpartition(":")
    arguments = devserver.arguments(
        ip=host,
        port=int(port),
        ui_port=free_port(),
        metrics_port=free_port(),
        database_file=str(place.state / "temporal.db"),
    )
    return [str(Path(PYTHON).with_name("temporal")), *arguments]


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
