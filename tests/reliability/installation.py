"""A whole installation: real processes on ports of their own, with their state in one folder."""

import asyncio
import os
import random
import shutil
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from domain import devserver
from store import schema
from tests.reliability.chronicle import Chronicle
from tests.reliability.outcome import say
from tests.reliability.postgres import Postgres
from tests.reliability.program import ROOT, Program
from tests.support.load import limit

PORTS = range(20_000, 32_000)
"""Below those that outgoing connections are given: a port stays free while its owner is dead."""

QUICK = {
    **{"DEPLOY": 0.6, "BOOT": 0.2, "CLOUD_INIT": 0.2, "RELEASE": 0.4},
    **{"INITIALISE": 0.8, "JOIN": 0.5, "NODE_READY": 0.3, "UPGRADE": 0.6},
}
"""Seconds. Long enough that kills land in the middle of them."""

EDGE_SECONDS = 8
"""What resource managers get for anything, so that what hangs is given up soon."""

EDGE = (
    *("CLUSTERINST_CREATE", "CLUSTERINST_UPDATE", "CLUSTERINST_DELETE"),
    *("APPINST_CREATE", "APPINST_DELETE"),
)

EVERYTHING = ("temporal", "site", "api", "worker-1", "worker-2")


class Door(NamedTuple):
    """Where an API process is reached."""

    grpc: str
    http: str


class Installation:
    """The processes of `windlass up`, started one by one, so that drills choose which there are."""

    def __init__(self, folder: Path, *, machines: int, draw: random.Random) -> None:
        self.folder = folder
        self.programs: dict[str, Program] = {}
        self.chronicle = Chronicle(folder / "site.jsonl")
        self.postgres: Postgres | None = None
        self.said_besides: dict[str, str] = {}
        """Settings of programs that are started from here on, over the usual ones."""
        self.keeps_logs = True
        """Until somebody has found that nothing went wrong."""
        ports = free_ports(len(NEEDED), draw)
        self._ports = dict(zip(NEEDED, ports, strict=True))
        self.temporal = f"127.0.0.1:{self._ports['temporal']}"
        self.doors = {
            name: Door(f"127.0.0.1:{self._ports[grpc]}", f"http://127.0.0.1:{self._ports[http]}")
            for name, grpc, http in (("api", "grpc", "http"), ("api-2", "grpc-2", "http-2"))
        }
        """Of API processes; one of them is there as a rule."""
        self.grpc, self.http = self.doors["api"]
        self.site = f"http://127.0.0.1:{self._ports['site']}"
        self.database = f"sqlite+aiosqlite:///{folder}/windlass.db"
        self._network = f"127.{draw.randint(64, 250)}"
        self._machines = machines

    @property
    def environment(self) -> dict[str, str]:
        """What every process is told; nothing of our own environment gets in."""
        settings = {
            "FILE": f"{self.folder}/no.toml",
            "STATE": str(self.folder),
            "DATABASE": self.database,
            "KEY_FILE": f"{self.folder}/seal.key",
            "GRPC_ADDRESS": self.grpc,
            "HTTP_ADDRESS": self.http.removeprefix("http://"),
            "LOG_FORMAT": "json",
            "TEMPORAL__ADDRESS": self.temporal,
            "MAAS__URL": f"{self.site}/MAAS/",
            "MAAS__API_KEY_FILE": f"{self.folder}/maas.key",
            "CEPH__URLS": "[]",
            "NODES__LOCAL": "true",
            "SITE__PORT": str(self._ports["site"]),
            "SITE__NETWORK": self._network,
            "SITE__MACHINES": str(self._machines),
            **{f"SITE__PACE__{name}": str(seconds) for name, seconds in QUICK.items()},
            **{f"EDGE__TIMEOUTS__{name}": f"PT{EDGE_SECONDS}S" for name in EDGE},
            **self.said_besides,
        }
        inherited = {name: text for name, text in os.environ.items() if "WINDLASS" not in name}
        return inherited | {f"WINDLASS_{name}": text for name, text in settings.items()}

    async def use_postgres(self) -> None:
        """Keep the rows in a PostgreSQL server, which is one more process to kill."""
        self.postgres = Postgres()
        self.database = self.postgres.url
        self.programs["postgres"] = self.postgres.program(self.folder / "postgres.log")
        await self.programs["postgres"].start()

    async def migrate(self) -> None:
        await schema.upgrade(self.database)

    async def start(self, *names: str) -> None:
        for name in names:
            self.programs[name] = self._program(name)
            await self.programs[name].start()

    async def start_dying_worker(self, plan: Path) -> Program:
        """A worker that dies as planned, and that nobody starts again then."""
        script = Path(__file__).with_name("dying_worker.py")
        worker = self._worker("worker-1", script, str(plan), restarts=False)
        self.programs["worker-1"] = worker
        await worker.start()
        return worker

    async def start_crm(self, cloudlet: str) -> Program:
        """The resource manager of a cloudlet, with its platform and its faults in our folder."""

        async def begun() -> bool:
            return True  # whether it is connected is the controller's to say

        script = Path(__file__).with_name("lasting_crm.py")
        command = [sys.executable, str(script), str(self.folder), cloudlet, self.grpc]
        self.programs["crm"] = crm = self._made("crm", command, begun)
        await crm.start()
        return crm

    async def start_agent(self, node: str, token: str) -> Program:
        """A node whose pods are simulated, and who it is to the control plane."""
        listens = f"127.0.0.1:{self._ports['agent']}"
        command = [sys.executable, "-m", "agent", "--node", node]
        self.programs["agent"] = agent = self._made(
            "agent",
            [*command, "--listen", listens, "--control", self.grpc],
            lambda: listening("127.0.0.1", self._ports["agent"]),
            environment={"WINDLASS_TOKEN": token, "WINDLASS_AGENT__RUNTIME": "simulated"},
        )
        await agent.start()
        return agent

    async def close(self) -> None:
        for program in reversed(self.programs.values()):
            await program.stop()
        if self.postgres is not None:
            self.postgres.remove()

    def fallen(self) -> list[str]:
        """Programs that ended unasked, however soon they were started again."""
        return [
            f"{one.name} ended by itself: {one.falls}"
            for one in self.programs.values()
            if one.falls and not one.may_fall
        ]

    def said(self, event: str) -> int:
        """How often any of our programs logged that."""
        logs = (self.folder / f"{name}.log" for name in self.programs)
        return sum(log.read_text(errors="replace").count(event) for log in logs if log.exists())

    async def client(self) -> Client:
        return await Client.connect(self.temporal, data_converter=pydantic_data_converter)

    def _program(self, name: str) -> Program:
        if name == "temporal":
            return self._temporal()
        if name == "site":
            return self._made(
                name,
                [sys.executable, "-m", "sim"],
                lambda: answers(f"{self.site}/MAAS/api/2.0/version/"),
                before_restart=self.chronicle.read_on,
            )
        if name in self.doors:
            return self._api(name, self.doors[name])
        return self._worker(name, ROOT / "worker.py")

    def _api(self, name: str, door: Door) -> Program:
        return self._made(
            name,
            [sys.executable, "-m", "api"],
            lambda: answers(f"{door.http}/livez"),
            environment={
                "WINDLASS_GRPC_ADDRESS": door.grpc,
                "WINDLASS_HTTP_ADDRESS": door.http.removeprefix("http://"),
            },
        )

    def _temporal(self) -> Program:
        arguments = devserver.arguments(
            port=self._ports["temporal"],
            ui_port=self._ports["temporal-ui"],
            metrics_port=self._ports["temporal-metrics"],
            database_file=f"{self.folder}/temporal.db",
        )
        command = [str(Path(sys.executable).with_name("temporal")), *arguments]
        return self._made("temporal", command, self._temporal_answers)

    async def _temporal_answers(self) -> bool:
        with suppress(RuntimeError, TimeoutError):
            async with limit(5):  # it may take a connection and say nothing
                return await (await self.client()).service_client.check_health()
        return False

    def _worker(self, name: str, script: Path, *words: str, restarts: bool = True) -> Program:
        port = self._ports[name]
        return self._made(
            name,
            [sys.executable, str(script), *words],
            lambda: listening("127.0.0.1", port),
            environment={"WINDLASS_WORKER__METRICS_PORT": str(port)},
            restarts=restarts,
        )

    def _made(
        self,
        name: str,
        command: list[str],
        ready: Callable[[], Awaitable[bool]],
        *,
        environment: Mapping[str, str] | None = None,
        before_restart: Callable[[], None] = lambda: None,
        restarts: bool = True,
    ) -> Program:
        return Program(
            name,
            command,
            {**self.environment, **(environment or {})},
            ready,
            log=self.folder / f"{name}.log",
            before_restart=before_restart,
            restarts=restarts,
        )


NEEDED = (
    *("temporal", "temporal-ui", "temporal-metrics"),
    *("site", "grpc", "http", "worker-1", "worker-2", "agent"),
    *("grpc-2", "http-2"),
)


@asynccontextmanager
async def installed(
    *programs: str, machines: int, draw: random.Random, postgres: bool = False
) -> AsyncIterator[Installation]:
    """An installation with these programs running, all of which are dead at the end."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-drill-"))
    installation = Installation(folder, machines=machines, draw=draw)
    try:
        if postgres:
            await installation.use_postgres()
        await installation.migrate()
        await installation.start(*programs)
        yield installation
    finally:
        await installation.close()
        if installation.keeps_logs:
            say(f"logs and state are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int, draw: random.Random) -> list[int]:
    found: list[int] = []
    for port in draw.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("there are not enough free ports")


async def listening(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def answers(url: str) -> bool:
    return await asyncio.to_thread(_get, url) is not None


async def fetched(url: str) -> bytes:
    """What is answered there, as soon as something is."""
    async with limit(30):
        while (found := await asyncio.to_thread(_get, url)) is None:  # noqa: ASYNC110 - over there
            await asyncio.sleep(0.1)
        return found


def _get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - our own address
            return bytes(reply.read())
    except (urllib.error.URLError, OSError):
        return None
