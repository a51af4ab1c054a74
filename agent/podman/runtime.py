"""Pods as containers: each with an address, files and limits of its own, and few rights."""

import asyncio
import hashlib
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from agent.output import MOST_BYTES, noted
from agent.podman.images import PodmanImages
from agent.podman.kernel import killed_for_memory
from agent.podman.rest import CALL_SECONDS, Rest, demultiplexed
from agent.podman.service import Service
from agent.process import ended
from agent.runtime import UNKNOWN_EXIT, Condition, Info, Output, PortMap, Seen, Spec
from agent.shim import signalled
from domain.errors import Conflict, DomainError, Failed, NotFound, Overdue, Unavailable
from domain.happening import SECOND_NS
from domain.logline import moment
from domain.placement import Amounts
from domain.pod import Image

NETWORK = "windlass"
LABEL = "windlass.pod"
RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""What programs in images that were made for containers count on. All others are dropped."""

PROCESSES = 512
LOG_BYTES = 10 * 2**20
PROOF_SECONDS = 60.0
PERIOD = 100_000
STARTS_AT_ONCE = 2 * (os.cpu_count() or 1)
SETTLE_SECONDS = 5.0
"""How long podman may take to notice that a container has ended."""

STATES = {
    "running": Condition.RUNNING,
    "stopping": Condition.RUNNING,
    "paused": Condition.RUNNING,
    "created": Condition.CREATED,
    "configured": Condition.CREATED,
    "initialized": Condition.CREATED,
    "exited": Condition.EXITED,
    "stopped": Condition.EXITED,
    "dead": Condition.EXITED,
    "removing": Condition.EXITED,
}


class Podman:
    """Implements `agent/runtime.py`."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node, self._folder = node, folder
        self._service = Service(folder)
        self._opened: Rest | None = None
        self._images: PodmanImages | None = None
        self._references: dict[str, str] = {}
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._sampled: dict[str, tuple[int, int]] = {}
        self._asked_to_end: set[str] = set()
        self._connects = False
        """Whether there is a network that pods can be in."""

    async def open(self, subnet: str) -> Info:
        if self._opened is None:
            self._opened = await self._service.start()
            archives = self._folder / "archives"
            archives.mkdir(exist_ok=True)
            self._images = PodmanImages(self._opened, self._folder / "storage", archives)
        if subnet:
            await self._network(subnet)
            self._connects = True
        version = (await self._rest.get("/version"))["Version"]
        return Info(name="podman", version=str(version), isolates=True)

    async def close(self) -> None:
        if self._opened:
            await self._opened.close()
            self._opened = None
        await self._service.stop()

    async def fetch(self, uri: str, credentials: str = "") -> Image:
        image, reference = await self._imported.fetch(uri, credentials)
        self._references[uri] = reference
        return image

    async def images(self) -> Sequence[Image]:
        return await self._imported.list()

    async def remove_image(self, id: str) -> None:
        await self._imported.remove(id)

    async def create(self, spec: Spec) -> None:
        if spec.uri not in self._references:
            await self.fetch(spec.uri)
        order = _order(spec, self._references[spec.uri])
        if not self._connects:
            order |= {"netns": {"nsmode": "none"}, "Networks": {}, "portmappings": []}
        async with self._starting:
            with suppress(Conflict):  # it is there
                await self._rest.ask("POST", "/containers/create", said=order)

    async def start(self, pod: str) -> None:
        self._asked_to_end.discard(pod)
        async with self._starting:
            await self._rest.ask("POST", f"/containers/{pod}/start")

    async def stop(self, pod: str, grace_seconds: float) -> None:
        self._asked_to_end.add(pod)
        with suppress(NotFound, Conflict):
            asked = {"timeout": str(int(grace_seconds))}
            await self._rest.ask("POST", f"/containers/{pod}/stop", asked=asked)
            await self.wait(pod)

    async def remove(self, pod: str) -> None:
        self._asked_to_end.add(pod)
        with suppress(NotFound):
            asked = {"force": "true", "timeout": "0", "v": "true"}
            await self._rest.ask("DELETE", f"/containers/{pod}", asked=asked)
        self._sampled.pop(pod, None)
        self._asked_to_end.discard(pod)

    async def inspect(self, pod: str) -> Seen:
        try:
            told = await self._rest.get(f"/containers/{pod}/json")
        except NotFound:
            return Seen(pod=pod, condition=Condition.GONE)
        return self._seen(pod, told)

    async def list(self) -> Sequence[Seen]:
        found = await self._rest.get("/containers/json", all="true")
        names = [each["Names"][0] for each in found or () if LABEL in (each.get("Labels") or {})]
        return [await self.inspect(name) for name in sorted(names)]

    async def wait(self, pod: str) -> Seen:
        while (seen := await self.inspect(pod)).condition is Condition.RUNNING:
            await ended(seen.pid)
            deadline = time.monotonic() + SETTLE_SECONDS
            while (await self.inspect(pod)).condition is Condition.RUNNING:
                if time.monotonic() > deadline:  # whoever watched it is dead too: nobody will tell
                    lost = {"condition": Condition.EXITED, "exit_code": UNKNOWN_EXIT, "lost": True}
                    return seen.model_copy(update={**lost, "cgroup": ""})
                await asyncio.sleep(0.02)
        return seen

    async def usage(self, pod: str) -> Amounts:
        told = await self._rest.get("/containers/stats", stream="false", containers=pod)
        for each in told.get("Stats") or ():
            now = int(each["SystemNano"]), int(each["CPUNano"])
            at, used = self._sampled.get(pod, (now[0] - int(each["UpTime"]) - 1, 0))
            self._sampled[pod] = now
            cpu = 1000 * max(now[1] - used, 0) // max(now[0] - at, 1)
            return Amounts(cpu=cpu, memory=int(each["MemUsage"]) // 10**6)
        return Amounts()

    async def exec(self, pod: str, command: Sequence[str], timeout_seconds: float) -> Output:
        said = {"Cmd": list(command), "AttachStdout": True, "AttachStderr": True}
        begun = await self._rest.ask("POST", f"/containers/{pod}/exec", said=said)
        path = f"/exec/{begun.json()['Id']}"
        try:
            async with asyncio.timeout(timeout_seconds):
                plain = {"Detach": False, "Tty": False}
                pieces = self._rest.pieces(
                    "POST", f"{path}/start", said=plain, seconds=timeout_seconds + CALL_SECONDS
                )
                async with aclosing(pieces):
                    out, err = noted(*await demultiplexed(pieces, MOST_BYTES))
        except TimeoutError:
            await self._break_off(path)
            raise Overdue(f"{command[0]} did not end within {timeout_seconds:g} s") from None
        except asyncio.CancelledError:
            await self._break_off(path)
            raise
        except Failed as error:  # there is no such program
            return Output(exit_code=127, stderr=f"{error.message}\n".encode())
        code = int((await self._rest.get(f"{path}/json"))["ExitCode"])
        return Output(exit_code=code, stdout=out, stderr=err)

    async def _break_off(self, path: str) -> None:
        """Kill a command that nobody listens to any more, which podman would let run on."""
        with suppress(DomainError):
            told = await self._rest.get(f"{path}/json")
            if told["Running"]:
                signalled(int(told["Pid"]), signal.SIGKILL)

    @property
    def _rest(self) -> Rest:
        if self._opened is None:
            raise Unavailable("podman is not open")
        return self._opened

    @property
    def _imported(self) -> PodmanImages:
        if self._images is None:
            raise Unavailable("podman is not open")
        return self._images

    async def _network(self, subnet: str) -> None:
        """The network that pods get their addresses in. It is made anew for another block."""
        try:
            there = await self._rest.get(f"/networks/{NETWORK}/json")
            if subnet in {each["subnet"] for each in there.get("subnets") or ()}:
                return
            await self._rest.ask("DELETE", f"/networks/{NETWORK}")
        except NotFound:
            pass
        mark = hashlib.sha256(self._node.encode()).hexdigest()
        bridge = "kbr" + (self._node if len(self._node) <= 12 else mark[:12])
        said = {
            "name": NETWORK,
            "driver": "bridge",
            "network_interface": bridge,
            "dns_enabled": False,
            "subnets": [{"subnet": subnet}],
        }
        await self._rest.ask("POST", "/networks/create", said=said)

    def _seen(self, pod: str, told: dict[str, Any]) -> Seen:
        state, settings = told["State"], told["NetworkSettings"]
        condition = STATES.get(str(state["Status"]), Condition.EXITED)
        seen = Seen(
            pod=pod,
            condition=condition,
            pid=int(state["Pid"]) or -1,
            exit_code=int(state["ExitCode"]),
            created_ns=_ns(str(told.get("Created") or "")),
            started_ns=_ns(state["StartedAt"]),
            # One that ends at once has ended before podman notes that it has begun.
            finished_ns=max(_ns(state["FinishedAt"]), _ns(state["StartedAt"]))
            if condition is Condition.EXITED
            else 0,
            cgroup=str(state.get("CgroupPath") or ""),
            network=NETWORK,
            ip=str((settings.get("Networks") or {}).get(NETWORK, {}).get("IPAddress") or ""),
            ports=_ports(settings.get("Ports") or {}),
            log=Path(told["HostConfig"]["LogConfig"]["Path"]),
        )
        container = str(told["Id"])
        if condition is Condition.RUNNING and not _is_of(container, seen.pid, "cgroup"):
            if not _is_of(container, int(state.get("ConmonPid") or -1), "cmdline"):
                update = {"condition": Condition.EXITED, "exit_code": UNKNOWN_EXIT, "lost": True}
                return seen.model_copy(update={**update, "cgroup": ""})
        elif condition is Condition.EXITED:
            asked = pod in self._asked_to_end
            oom = seen.exit_code == 137 and not asked and killed_for_memory(container)
            return seen.model_copy(update={"oom": oom, "cgroup": ""})
        return seen


def _order(spec: Spec, reference: str) -> dict[str, Any]:
    """What podman is asked to make. Nothing of the host is let in, and nobody gains rights."""
    limits: dict[str, Any] = {"pids": {"limit": PROCESSES}}
    if spec.limits.memory:
        limits["memory"] = {"limit": spec.limits.memory * 10**6}
    if spec.limits.cpu:
        limits["cpu"] = {"quota": max(spec.limits.cpu * PERIOD // 1000, 1000), "period": PERIOD}
    order: dict[str, Any] = {
        "name": spec.pod,
        "image": reference,
        "env": dict(spec.environment),
        "labels": {LABEL: spec.pod, "windlass.instance": spec.instance},
        "init": True,
        "privileged": False,
        "no_new_privileges": True,
        "cap_drop": ["ALL"],
        "cap_add": list(RIGHTS),
        "restart_policy": "no",
        "netns": {"nsmode": "bridge"},
        "Networks": {NETWORK: {"static_ips": [spec.ip]} if spec.ip else {}},
        "portmappings": [mapping for port in spec.ports for mapping in _mappings(port)],
        "resource_limits": limits,
        "log_configuration": {"driver": "k8s-file", "size": LOG_BYTES},
    }
    if spec.command:
        order["entrypoint"], order["command"] = [], list(spec.command)
    return order


def _mappings(port: PortMap) -> list[dict[str, Any]]:
    outside = port.source or _free_port()
    return [
        {"host_port": outside, "container_port": port.destination, "protocol": protocol}
        for protocol in ("tcp", "udp")
    ]


def _free_port() -> int:
    with socket.create_server(("0.0.0.0", 0)) as found:  # noqa: S104 (closed at once)
        return int(found.getsockname()[1])


def _ports(told: dict[str, Any]) -> tuple[PortMap, ...]:
    return tuple(
        PortMap(source=int(each["HostPort"]), destination=int(inside.removesuffix("/tcp")))
        for inside, outside in told.items()
        if inside.endswith("/tcp")
        for each in outside or ()
    )


def _ns(text: str) -> int:
    """Never is told as the year 1."""
    found = moment(text)
    return found if found and found > SECOND_NS else 0


def _is_of(container: str, pid: int, where: str) -> bool:
    """Whether a process is a container's: its own is in a group of that name, and whoever watches
    it was given it as a word. Any other has been given an id that was free again."""
    with suppress(OSError):
        return container.encode() in Path(f"/proc/{pid}/{where}").read_bytes()
    return False


async def proven(runtime: Podman) -> str:
    """Why podman cannot be used here, found out by running a container. Empty: it can."""
    spec = Spec(
        pod="windlass-proof", instance="proof", name="proof", uri="builtin:exit", command=("true",)
    )
    try:
        await runtime.open("")
        await runtime.remove(spec.pod)
        await runtime.create(spec)
        await runtime.start(spec.pod)
        async with asyncio.timeout(PROOF_SECONDS):
            seen = await runtime.wait(spec.pod)
        await runtime.remove(spec.pod)
    except (DomainError, TimeoutError) as error:
        return str(error) or "a test container did not end"
    return f"a test container ended with {seen.exit_code}" if seen.exit_code else ""
