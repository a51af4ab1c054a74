"""Pods that are only imagined, for tests of whatever is above them: thousands of nodes fit into
one process. What is built in behaves as it would, as far as anybody can tell from outside."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.manifests import builtin_image, image_id
from agent.runtime import Condition, Info, Output, Seen, Spec
from agent.uris import BUILTIN, BUILTINS, source
from domain.errors import Conflict, DomainError, NotFound
from domain.logline import Line, written
from domain.placement import Amounts
from domain.pod import Format, Image

FIRST_PID = 100_000


@dataclass
class Pace:
    """How long things take, in seconds."""

    fetch: float = 0.0
    start: float = 0.0
    stop: float = 0.0


@dataclass
class Imagined:
    spec: Spec
    seen: Seen
    over: asyncio.Event = field(default_factory=asyncio.Event)
    ending: "asyncio.TimerHandle | None" = None


class Simulated:
    """Implements `agent/runtime.py`. `faults` says what goes wrong: by a method's name, the error
    that its next call raises."""

    def __init__(self, pace: Pace | None = None, folder: Path | None = None) -> None:
        self._pace, self._folder = pace or Pace(), folder
        self._pods: dict[str, Imagined] = {}
        self._images: dict[str, Image] = {}
        self.faults: dict[str, DomainError] = {}

    async def open(self, subnet: str) -> Info:  # noqa: ARG002 (addresses are not imagined)
        return Info(name="simulated", version="1")

    async def close(self) -> None:
        for pod in self._pods.values():
            if pod.ending:
                pod.ending.cancel()

    async def fetch(self, uri: str, credentials: str = "") -> Image:  # noqa: ARG002 (no registry)
        meant = source(uri)
        await self._pass("fetch", self._pace.fetch)
        if uri not in self._images:
            self._images[uri] = (
                builtin_image(BUILTINS[meant.rest])
                if meant.kind == BUILTIN
                else Image(id=image_id(uri.encode()), name=meant.rest, format=Format.OCI)
            )
        return self._images[uri]

    async def images(self) -> Sequence[Image]:
        return list({image.id: image for image in self._images.values()}.values())

    async def remove_image(self, id: str) -> None:
        self._images = {uri: image for uri, image in self._images.items() if image.id != id}

    async def create(self, spec: Spec) -> None:
        await self._pass("create")
        if spec.pod not in self._pods:
            seen = Seen(
                pod=spec.pod,
                condition=Condition.CREATED,
                ports=spec.ports,
                ip=spec.ip,
                created_ns=time.time_ns(),
            )
            if self._folder:
                seen = seen.model_copy(update={"log": self._folder / f"{spec.pod}.log"})
            self._pods[spec.pod] = Imagined(spec, seen)

    async def start(self, pod: str) -> None:
        one = self._there(pod)
        if one.seen.condition is Condition.RUNNING:
            return
        await self._pass("start", self._pace.start)
        one.over.clear()
        self._becomes(
            one,
            condition=Condition.RUNNING,
            pid=FIRST_PID + len(self._pods),
            started_ns=time.time_ns(),
            cgroup=f"/simulated/{pod}",
            network="simulated",
        )
        meant, told = source(one.spec.uri), dict(one.spec.environment)
        if meant.rest == "exit":
            code, after = int(told.get("CODE", "0")), float(told.get("AFTER", "0"))
            self._say(one, f"ending with {code}")
            one.ending = asyncio.get_running_loop().call_later(after, self.end, pod, code)
        elif meant.rest == "eater":
            one.ending = asyncio.get_running_loop().call_later(0, self.eats, pod)
        elif meant.rest == "ticker":
            self._say(one, f"tick 1 {told.get('GREETING', '')}")
        elif meant.rest == "env":
            for name, value in sorted(told.items()):
                self._say(one, f"{name}={value}")

    async def stop(self, pod: str, grace_seconds: float) -> None:
        await self._pass("stop", min(self._pace.stop, grace_seconds))
        if pod in self._pods:
            self.end(pod, 143)

    async def remove(self, pod: str) -> None:
        await self._pass("remove")
        self.end(pod, 137)
        self._pods.pop(pod, None)

    async def inspect(self, pod: str) -> Seen:
        one = self._pods.get(pod)
        return one.seen if one else Seen(pod=pod, condition=Condition.GONE)

    async def list(self) -> Sequence[Seen]:
        return [one.seen for _, one in sorted(self._pods.items())]

    async def wait(self, pod: str) -> Seen:
        if (one := self._pods.get(pod)) and one.seen.condition is Condition.RUNNING:
            await one.over.wait()
            return one.seen
        return await self.inspect(pod)

    async def usage(self, pod: str) -> Amounts:
        seen = await self.inspect(pod)
        running = seen.condition is Condition.RUNNING
        return Amounts(cpu=1, memory=1) if running else Amounts()

    async def exec(
        self,
        pod: str,
        command: Sequence[str],
        timeout_seconds: float,  # noqa: ARG002 (all is done at once)
    ) -> Output:
        if self._there(pod).seen.condition is not Condition.RUNNING:
            raise Conflict(f"pod {pod} does not run", subject=pod, do="start it first")
        match list(command):
            case ["sh", "-c", script] if script.startswith("exit "):
                return Output(exit_code=int(script.removeprefix("exit ")))
            case ["echo", *words]:
                return Output(exit_code=0, stdout=(" ".join(words) + "\n").encode())
            case _:
                return Output(exit_code=127, stderr=f"{command[0]}: not simulated\n".encode())

    def end(self, pod: str, code: int, *, oom: bool = False) -> None:
        """Have a pod end by itself."""
        one = self._pods.get(pod)
        if one is None or one.seen.condition is not Condition.RUNNING:
            return
        if one.ending:
            one.ending.cancel()
        over = {"exit_code": code, "oom": oom, "cgroup": "", "finished_ns": time.time_ns()}
        self._becomes(one, condition=Condition.EXITED, **over)
        one.over.set()

    def eats(self, pod: str) -> None:
        self.end(pod, 137, oom=True)

    def _there(self, pod: str) -> Imagined:
        if pod not in self._pods:
            raise NotFound(f"there is no pod {pod}", subject=pod)
        return self._pods[pod]

    def _becomes(self, one: Imagined, **now: object) -> None:
        one.seen = one.seen.model_copy(update=now)

    def _say(self, one: Imagined, text: str) -> None:
        if one.seen.log:
            with one.seen.log.open("ab") as log:
                log.write(written(Line(time.time_ns(), "stdout", text)))

    async def _pass(self, method: str, seconds: float = 0.0) -> None:
        if error := self.faults.pop(method, None):
            raise error
        await asyncio.sleep(seconds)
