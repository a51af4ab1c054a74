"""A podman service of the node's own, with storage and settings that no other podman touches."""

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

import structlog

from agent.podman.rest import Rest
from domain.errors import DomainError, Unavailable

NEEDED = ("podman", "conmon", "runc", "catatonit")
APT = "podman conmon runc catatonit netavark aardvark-dns iptables busybox-static"
READY_SECONDS = 30.0
LOOK_SECONDS = 0.05
UNMOUNTS = 10
PAUSE_SECONDS = 0.5

log = structlog.get_logger()

SETTINGS = """[containers]
default_ulimits = ["nofile=8192:8192", "nproc=16384:16384"]
log_driver = "k8s-file"
log_size_max = 10485760
init = true
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
exit_command_delay = 5
tmp_dir = "{run}/libpod"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/net"
"""
"""Soft and hard limits are equal, since podman 4.3 swaps them, and low enough for hosts that may
not raise theirs; runc, since crun refuses hosts with both kinds of cgroups. A command beside a
container is remembered for five seconds after its end, and its watcher stays as long; by itself
podman makes that five minutes."""


class Service:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mark = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        self._run = Path("/run/windlass") / mark  # short, as the path of a socket has to be
        self.socket = self._run / "podman.sock"
        self._process: asyncio.subprocess.Process | None = None
        self._minding: asyncio.Task[None] | None = None

    async def start(self) -> Rest:
        """A connection to the service, which one is begun if none answers. Unavailable says what
        is missing."""
        if os.getuid() != 0:
            raise Unavailable("podman needs the agent to be root")
        missing = [name for name in NEEDED if not _program(name)]
        if missing:
            raise Unavailable(
                f"not installed: {', '.join(missing)}",
                do=f"apt-get install -y --no-install-recommends {APT}",
            )
        rest = Rest(self.socket)
        if await _answers(rest):  # of an agent that was killed
            return rest
        await self._begin()
        deadline = asyncio.get_running_loop().time() + READY_SECONDS
        while not await _answers(rest):
            ended = self._process is not None and self._process.returncode is not None
            if ended or asyncio.get_running_loop().time() > deadline:
                await rest.close()
                raise Unavailable(
                    f"podman's service does not come up: {self._last_words()}",
                    do=f"read {self.folder / 'service.log'}",
                )
            await asyncio.sleep(LOOK_SECONDS)
        self._minding = asyncio.create_task(self._mind())
        return rest

    async def stop(self) -> None:
        """End the service. Containers do not need it to run on."""
        if self._minding:
            self._minding.cancel()
            await asyncio.wait([self._minding])
        if self._process and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
            await self._unmount()

    async def _unmount(self) -> None:
        """Let go of the storage, so that whoever wants to can remove it. While containers run in
        it, it stays; and what podman still clears away after them may take hold of it once more."""
        for _ in range(UNMOUNTS):
            umount = await asyncio.create_subprocess_exec(
                "umount",
                str(self.folder / "storage" / "overlay"),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await umount.wait()
            await asyncio.sleep(LOOK_SECONDS)

    async def _mind(self) -> None:
        """Begin it again whenever it ends: containers run on without it, but the node would take
        instances that it cannot start, and look empty."""
        while self._process:
            code = await self._process.wait()
            log.warning("podman's service ended and is begun again", code=code)
            await asyncio.sleep(PAUSE_SECONDS)
            await self._begin()

    async def _begin(self) -> None:
        for place in (self.folder / "storage", self.folder / "net", self._run / "libpod"):
            place.mkdir(parents=True, exist_ok=True)
        self._run.chmod(0o700)
        self.socket.unlink(missing_ok=True)
        settings = self.folder / "containers.conf"
        settings.write_text(SETTINGS.format(run=self._run, folder=self.folder))
        with (self.folder / "service.log").open("ab") as said:
            self._process = await asyncio.create_subprocess_exec(
                *("podman", "--root", str(self.folder / "storage")),
                *("--runroot", str(self._run / "run")),
                *("system", "service", "--time=0", f"unix://{self.socket}"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "CONTAINERS_CONF": str(settings)},
                cwd=self.folder,  # where conmon leaves a file when a container has had too much
                start_new_session=True,
            )

    def _last_words(self) -> str:
        try:
            return (self.folder / "service.log").read_text()[-300:].strip()
        except OSError:
            return "it said nothing"


def _program(name: str) -> bool:
    beside = ("/usr/bin", "/usr/sbin", "/usr/libexec/podman", "/usr/lib/podman")
    return bool(shutil.which(name)) or any(Path(each, name).exists() for each in beside)


async def _answers(rest: Rest) -> bool:
    try:
        await rest.ask("GET", "/_ping", seconds=5)
    except DomainError:
        return False
    return True
