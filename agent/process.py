"""Pods as plain processes, where there is no podman: each in a session of its own, under a shim
that outlives the agent. They share the host's network and files, so ports are the host's, and only
what is built in can be run: no image, no command and no `exec` from outside, unless the operator
has allowed commands for development. It is no place for tenants who do not trust each other."""

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent import output, shim
from agent.manifests import builtin_image
from agent.runtime import UNKNOWN_EXIT, Condition, Info, Output, PortMap, Seen, Spec
from agent.uris import BUILTIN, BUILTINS, source
from domain.errors import Conflict, Forbidden, NotFound, Overdue, Unavailable, Unsupported
from domain.placement import Amounts
from domain.pod import Image

FIRST_USER, USERS = 1_900_000_000, 50_000_000
"""The user ids that programs run as if we are root, one for each instance: systemd, distributions
and container engines give out none of them."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a name in the environment may be. Shells read functions out of other names."""

LOADERS = re.compile(
    r"(LD|DYLD|MALLOC)_.*|(PYTHON|BASH|GLIBC|GCONV).*"
    r"|PATH|ENV|IFS|SHELLOPTS|PS[0-9]|PROMPT_COMMAND|CDPATH|LOCPATH|NLSPATH|BROWSER|TMPDIR|HOME"
)
"""Names by which a loader, a shell or an interpreter is given something else to run."""

START_SECONDS = 20.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Processes:
    """Implements `agent/runtime.py`. What it knows lies in a folder per pod. `commands` allows
    command, exec and any environment from outside: development alone."""

    def __init__(self, folder: Path, *, commands: bool = False) -> None:
        self._folder = folder
        self._pods = folder / "pods"
        self._commands = commands
        self._images: dict[str, Image] = {}

    async def open(self, subnet: str) -> Info:  # noqa: ARG002 (all have the host's address)
        self._pods.mkdir(parents=True, exist_ok=True)
        return Info(name="process", version=".".join(map(str, sys.version_info[:3])))

    async def close(self) -> None:
        """Nothing is held open."""

    async def fetch(self, uri: str, credentials: str = "") -> Image:  # noqa: ARG002 (no registry)
        meant = source(uri)
        if meant.kind != BUILTIN:
            raise Unsupported(
                f"{uri} needs a runtime with images, and this node has none",
                subject=uri,
                reason="IMAGE_NEEDS_PODMAN",
                do="install podman on the node, or use builtin:NAME",
            )
        if meant.rest not in self._images:
            self._images[meant.rest] = builtin_image(BUILTINS[meant.rest])
        return self._images[meant.rest]

    async def images(self) -> Sequence[Image]:
        return list(self._images.values())

    async def remove_image(self, id: str) -> None:
        self._images = {name: each for name, each in self._images.items() if each.id != id}

    async def create(self, spec: Spec) -> None:
        home = self._home(spec.pod)
        if (home / "order.json").exists():
            return
        self._check(spec)
        user = self._free_user() if os.getuid() == 0 else 0
        (home / "work").mkdir(parents=True, exist_ok=True)
        (home / "work").chmod(0o700)
        ports = tuple(port if port.source else _free(port) for port in spec.ports)
        if user:
            os.chown(home / "work", user, user)
        environment = {"PATH": PATH, "HOME": str(home / "work"), **dict(spec.environment)}
        if ports:  # there is no network to map them in
            environment.setdefault("PORT", str(ports[0].source))
        script = BUILTINS[source(spec.uri).rest].script
        order = {
            "command": list(spec.command) or ["/bin/sh", "-c", script],
            "environment": environment,
            "folder": str(home / "work"),
            "memory_bytes": spec.limits.memory * 10**6,
            "user": user,
            "ports": [port.model_dump() for port in ports],
            "created_ns": time.time_ns(),
        }
        shim.written(str(home / "order.json"), order)

    async def start(self, pod: str) -> None:
        if (await self.inspect(pod)).condition is Condition.RUNNING:
            return
        home = self._there(pod)
        for left in ("began.json", "ended.json"):
            (home / left).unlink(missing_ok=True)
        command = [sys.executable, "-I", "-S", shim.__file__, str(home)]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        try:
            await asyncio.to_thread(
                subprocess.run,  # type: ignore[arg-type]
                command,
                check=True,
                timeout=START_SECONDS,
                **quiet,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise Unavailable(f"pod {pod} could not be started: {error}", subject=pod) from error

    async def stop(self, pod: str, grace_seconds: float) -> None:
        seen = await self.inspect(pod)
        if seen.condition is not Condition.RUNNING:
            return
        with suppress(ProcessLookupError):
            os.kill(_read(self._home(pod) / "began.json")["shim"], signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.wait(pod)
        except TimeoutError:
            shim.signalled(seen.pid, signal.SIGKILL)
            await self.wait(pod)

    async def remove(self, pod: str) -> None:
        seen = await self.inspect(pod)
        if seen.condition is Condition.RUNNING:
            shim.signalled(seen.pid, signal.SIGKILL)
            await self.wait(pod)
        await asyncio.to_thread(shutil.rmtree, self._home(pod), ignore_errors=True)

    async def inspect(self, pod: str) -> Seen:
        home = self._home(pod)
        if not (order := _read(home / "order.json")):
            return Seen(pod=pod, condition=Condition.GONE)
        ports = tuple(PortMap.model_validate(port) for port in order["ports"])
        created = int(order.get("created_ns") or 0)
        seen = Seen(
            pod=pod, condition=Condition.CREATED, ports=ports, log=home / "log", created_ns=created
        )
        if not (began := _read(home / "began.json")):
            return seen
        known = {"pid": began["pid"], "started_ns": began["started_ns"]}
        if ended := _read(home / "ended.json"):
            return seen.model_copy(update={**known, **ended, "condition": Condition.EXITED})
        if _is_shim(began["shim"], home):
            known |= {"condition": Condition.RUNNING, "cgroup": _cgroup(began["pid"])}
            known |= {"network": "host", "ip": "127.0.0.1"}
            return seen.model_copy(update=known)
        if ended := _read(home / "ended.json"):  # it wrote that down and went meanwhile
            return seen.model_copy(update={**known, **ended, "condition": Condition.EXITED})
        lost = {"condition": Condition.EXITED, "exit_code": UNKNOWN_EXIT, "lost": True}
        return seen.model_copy(update={**known, **lost})

    async def list(self) -> Sequence[Seen]:
        return [await self.inspect(home.name) for home in sorted(self._pods.iterdir())]

    async def wait(self, pod: str) -> Seen:
        while (seen := await self.inspect(pod)).condition is Condition.RUNNING:
            began = _read(self._home(pod) / "began.json")
            await ended(int(began["shim"]))
        return seen

    async def usage(self, pod: str) -> Amounts:
        seen = await self.inspect(pod)
        if seen.condition is not Condition.RUNNING:
            return Amounts()
        return Amounts(cpu=0, memory=shim.resident_bytes(seen.pid) // 10**6)

    def _check(self, spec: Spec) -> None:
        """Forbidden if what is ordered would run more than the program that is built in."""
        if self._commands:
            return
        if spec.command or spec.probe:
            raise _forbidden("a command", spec.pod)
        for name, _ in spec.environment:
            if not VARIABLE.fullmatch(name) or LOADERS.fullmatch(name):
                raise _forbidden(f"the variable {name[:64]!r}", spec.pod)

    def _free_user(self) -> int:
        """A user id that no pod of ours has. It is drawn, so that agents which share a machine
        need not agree, and nobody can have a pod of theirs meet another's."""
        taken = {_read(home / "order.json").get("user") for home in self._pods.iterdir()}
        while (user := FIRST_USER + secrets.randbelow(USERS)) in taken:
            pass
        return user

    async def exec(self, pod: str, command: Sequence[str], timeout_seconds: float) -> Output:
        if not self._commands:
            raise _forbidden("a command", pod)
        if (await self.inspect(pod)).condition is not Condition.RUNNING:
            raise Conflict(f"pod {pod} does not run", subject=pod, do="start it first")
        making = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *[sys.executable, "-I", "-S", shim.__file__, str(self._home(pod)), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                process = await asyncio.shield(making)
                if process.stdout is None or process.stderr is None:
                    raise RuntimeError("a command was begun without its outputs")
                kept = await asyncio.gather(
                    output.read(process.stdout), output.read(process.stderr), process.wait()
                )
        except BaseException as error:  # nobody listens any more, be it to what it began
            pid = (await making).pid
            shim.signalled(pid, signal.SIGKILL)
            await ended(pid)
            if isinstance(error, TimeoutError):
                raise Overdue(f"{command[0]} did not end within {timeout_seconds:g} s") from None
            raise
        out, err = output.noted(kept[0], kept[1])
        return Output(exit_code=process.returncode or 0, stdout=out, stderr=err)

    def _home(self, pod: str) -> Path:
        return self._pods / pod

    def _there(self, pod: str) -> Path:
        if not (self._home(pod) / "order.json").exists():
            raise NotFound(f"there is no pod {pod}", subject=pod)
        return self._home(pod)


async def ended(pid: int) -> None:
    """Return once a process has ended, whoever's child it is."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _is_shim(pid: int, home: Path) -> bool:
    """Whether this process still is that folder's shim: its id may have been given out again."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return False
    return str(home).encode() in words and state != "Z"


def _cgroup(pid: int) -> str:
    try:
        return cgroup(Path(f"/proc/{pid}/cgroup").read_text())
    except OSError:
        return ""


def cgroup(told: str) -> str:
    """A process's cgroup out of what the kernel tells of it, `ID:CONTROLLERS:PATH` a line. Where
    hierarchies of both versions are mounted they differ: the unified one is meant, or where it has
    nothing to say systemd's, or whichever has."""
    paths: dict[str, str] = {}
    for line in told.splitlines():
        _, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if separator:
            paths[controllers] = path
    ranked = [paths[name] for name in ("", "name=systemd") if name in paths]
    ranked += [path for _, path in sorted(paths.items())]
    return next((path for path in ranked if path != "/"), "/" if ranked else "")


def _forbidden(what: str, pod: str) -> Forbidden:
    return Forbidden(
        f"pods on this node are plain processes, which may not be given {what}",
        subject=pod,
        reason="PROCESS_RUNS_NO_COMMANDS",
        do="run it on a node with podman; for development alone WINDLASS_AGENT__PROCESS_COMMANDS",
    )


def _free(port: PortMap) -> PortMap:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return PortMap(source=found.getsockname()[1], destination=port.destination)


def _read(path: Path) -> dict[str, Any]:
    """What lies there. Nothing is the same as what cannot be read."""
    try:
        told: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told
