"""The life of one incarnation of an instance on this node, from its order to its record."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from agent.archive import Archive
from agent.ledger import Ledger
from agent.manifests import pod_manifest
from agent.orders import FINAL, Record, State, Status
from agent.probing import until_unhealthy
from agent.runtime import APP, UNKNOWN_EXIT, Condition, Runtime, Seen
from domain.agents import ENDED
from domain.errors import Conflict, DomainError
from domain.happening import Happening, Kind
from domain.pod import App, AppState, Image, Network, Pod, PodState

SAMPLE_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""What an instance gets to end by itself unless somebody says otherwise."""

log = structlog.get_logger()

Fetch = Callable[[str, str], Awaitable[Image]]


class Carried:
    """One instance here. Who follows it is told of every state, and of its usage now and then."""

    def __init__(
        self,
        record: Record,
        node: str,
        runtime: Runtime,
        ledger: Ledger,
        archive: Archive,
        fetch: Fetch,
        ring: Callable[[], None],
    ) -> None:
        self.record = record
        self._node, self._runtime, self._ledger = node, runtime, ledger
        self._archive, self._fetch, self._ring = archive, fetch, ring
        self._told: list[Status] = [record.status]
        self._usage = record.status
        self._followers: set[asyncio.Event] = set()
        self._turn = asyncio.Lock()
        self._life: asyncio.Task[object] | None = None
        self._works: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> State:
        return self.record.status.state

    @property
    def is_stopped(self) -> bool:
        return self.state is State.STOPPED

    def begin(self) -> None:
        """Take up its life wherever it stands. What has ended, or was stopped, is left alone."""
        if self.state in FINAL or self.is_stopped:
            return
        unfinished: dict[State, Callable[[], Coroutine[Any, Any, object]]] = {
            State.DESTROYING: self.destroy,
            State.STOPPING: self.stop,
        }
        self._life = asyncio.create_task(unfinished.get(self.state, self._live)())

    async def follow(self, *, whole: bool = False) -> AsyncGenerator[Status, None]:
        """How it stands, or the whole of its life so far; then every change, until it has ended for
        good."""
        at, usage = 0 if whole else len(self._told) - 1, self._usage
        news = asyncio.Event()
        self._followers.add(news)
        try:
            while True:
                news.clear()
                while at < len(self._told):
                    status = self._told[at]
                    at += 1
                    yield status
                    if status.state in FINAL:
                        return
                if self._usage is not usage and self.state is State.RUNNING:
                    usage = self._usage
                    yield usage
                await news.wait()
        finally:
            self._followers.discard(news)

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> int:
        """Have it end, and keep what it ran in. The answer is its exit code. Whoever hangs up
        meanwhile stops it all the same."""
        await asyncio.shield(self._work(self._stop(grace_seconds)))
        return self.record.exit_code

    async def _stop(self, grace_seconds: float) -> None:
        async with self._turn:
            if self.state not in FINAL and not self.is_stopped:
                await self._halt()
                self._becomes(Status(state=State.STOPPING))
                await self._runtime.stop(self.record.pod, grace_seconds)
                self._exits(await self._seen(), Status(state=State.STOPPED, description="stopped"))

    async def start(self) -> None:
        """Have what was stopped run again. It does when this is answered, unless it fails."""
        async with self._turn:
            if self.state in FINAL:
                raise Conflict(
                    f"instance {self.record.instance} has ended: {self.record.status.description}",
                    subject=self.record.instance,
                    reason=ENDED,
                    do="create it again",
                )
            if self.is_stopped:
                self._becomes(Status(state=State.STARTING))
                self.begin()
            async for status in self.follow():
                if status.state is not State.STARTING:
                    return

    async def destroy(self) -> None:
        """End it now, and leave nothing but its record and its log."""
        await asyncio.shield(self._work(self._destroy()))

    async def _destroy(self) -> None:
        async with self._turn:
            if self.record.pod_state is PodState.GARBAGE:
                return
            await self._halt()
            final = self.state in FINAL
            if not final:
                self._becomes(Status(state=State.DESTROYING))
                await self._runtime.stop(self.record.pod, 0)
                self._exits(await self._seen(), self.record.status)
            await self.clear()
            if not final:
                self._becomes(Status(state=State.TERMINATED, description="destroyed"))

    def _work(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return task

    async def clear(self) -> None:
        """Remove what it ran in."""
        self._pod_becomes(PodState.DELETING)
        await self._runtime.remove(self.record.pod)
        self._archive.finish(self.record.pod)
        with self._ledger.together():
            self._pod_becomes(PodState.GARBAGE)
            self._happened(Kind.POD_GARBAGE_COLLECTED)

    async def leave(self) -> None:
        """Let go of it. It runs on, to be adopted."""
        await self._halt()

    async def _live(self) -> None:
        try:
            seen = await self._runtime.inspect(self.record.pod)
            if seen.condition is Condition.RUNNING and self.record.pod_state is PodState.RUNNING:
                self._archive.watch(seen.pod, seen.log)  # adopted
                if self.state is State.STARTING:  # we were killed before we said that it runs
                    self._becomes(Status(state=State.RUNNING, description=_reached(seen)))
            elif self.record.pod_state is PodState.RUNNING:
                self._ends(seen)  # while nobody looked
                return
            else:
                await self._prepare()
                seen = await self._run()
            await self._attend(seen)
        except DomainError as error:
            self._fails(error.message)
        except Exception as error:  # a bug of ours must not leave it without an end
            log.error("an instance was given up", instance=self.record.instance, exc_info=error)
            self._fails(f"{type(error).__name__}: {error}")

    async def _prepare(self) -> None:
        order = self.record.order
        image = await self._fetch(order.uri, order.credentials)
        if self.record.pod_state is PodState.EXITED:  # stopped, and what it ran in is there
            return
        order = order.model_copy(update={"credentials": ""})
        self._keep(image=image, order=order)
        await self._runtime.create(order.spec())
        made = await self._seen()
        with self._ledger.together():
            self._keep(created_ns=made.created_ns or time.time_ns())
            self._pod_becomes(PodState.PREPARED)
            self._happened(Kind.POD_PREPARED)

    async def _run(self) -> Seen:
        await self._runtime.start(self.record.pod)
        seen = await self._runtime.inspect(self.record.pod)
        self._archive.watch(seen.pod, seen.log)
        with self._ledger.together():
            self._keep(
                pid=seen.pid,
                started_ns=seen.started_ns,
                ip=seen.ip,
                network=seen.network,
                ports=seen.ports,
            )
            self._pod_becomes(PodState.RUNNING, cgroup=seen.cgroup)
            self._happened(Kind.POD_STARTED)
            self._happened(Kind.APP_STARTED)
        self._becomes(Status(state=State.RUNNING, description=_reached(seen)))
        return seen

    async def _attend(self, seen: Seen) -> None:
        """Stay with it while it runs."""
        order = self.record.order
        over = asyncio.create_task(self._runtime.wait(order.pod))
        ends: set[asyncio.Task[Any]] = {over}
        if order.health:
            asked = until_unhealthy(order.health, self._runtime, seen)
            ends.add(ill := asyncio.create_task(asked))
        beside = asyncio.create_task(self._sample())
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if over.done():
                self._ends(over.result())
                return
            await self._runtime.stop(order.pod, GRACE_SECONDS)
            self._exits(await self._seen(), Status(state=State.FAILED, description=ill.result()))
        finally:
            for task in (*ends, beside):
                task.cancel()
            await asyncio.wait([*ends, beside])

    async def _sample(self) -> None:
        while True:
            with suppress(DomainError):
                usage = await self._runtime.usage(self.record.pod)
                if usage != self._usage.usage:
                    self._usage = self.record.status.model_copy(update={"usage": usage})
                    self._wake()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _halt(self) -> None:
        """End its life as far as it is ours. What runs, runs on."""
        if self._life and not self._life.done() and self._life is not asyncio.current_task():
            self._life.cancel()
            await asyncio.wait([self._life])

    async def _seen(self) -> Seen:
        return await self._runtime.inspect(self.record.pod)

    def _ends(self, seen: Seen) -> None:
        """It ended by itself."""
        self._exits(seen, _verdict(seen, self.record))

    def _exits(self, seen: Seen, status: Status) -> None:
        """Write down how it ended, after everything it said."""
        self._archive.finish(self.record.pod)
        code = UNKNOWN_EXIT if _is_lost(seen) else seen.exit_code
        seen = seen.model_copy(update={"exit_code": code})
        ran = self.record.pod_state is PodState.RUNNING
        with self._ledger.together():
            self._keep(exit_code=seen.exit_code, ended_ns=seen.finished_ns or time.time_ns())
            if ran:
                self._pod_becomes(PodState.EXITED)
                self._happened(Kind.APP_EXITED, seen, status.description)
                self._happened(Kind.POD_EXITED, seen, status.description)
        if status != self.record.status:
            self._becomes(status)

    def _fails(self, why: str) -> None:
        """It could not be brought to run."""
        self._archive.finish(self.record.pod)
        with self._ledger.together():
            self._keep(exit_code=UNKNOWN_EXIT, ended_ns=time.time_ns())
            if self.record.pod_state in {PodState.PREPARING, PodState.PREPARED}:
                self._pod_becomes(PodState.ABORTED_PREPARE)
                self._happened(Kind.POD_PREPARE_ABORTED, reason=why)
        text = f"Error while starting workload: {why}"
        self._becomes(Status(state=State.FAILED, description=text))

    def _becomes(self, status: Status) -> None:
        self._keep(status=status)
        self._told.append(status)
        self._wake()

    def _wake(self) -> None:
        for news in self._followers:
            news.set()

    def _keep(self, **now: object) -> None:
        self.record = self.record.model_copy(update=now)
        self._ledger.keep(self.record)

    def _pod_becomes(self, state: PodState, *, cgroup: str = "") -> None:
        self._keep(pod_state=state)
        self._ledger.tell_pod(_pod(self.record, self._node, cgroup))
        self._ring()

    def _happened(self, kind: Kind, seen: Seen | None = None, reason: str = "") -> None:
        told = {"node": self._node, "reason": reason}
        if seen:
            told |= {"exit_code": str(seen.exit_code), "oom": str(seen.oom).lower()}
        data = tuple((name, value) for name, value in told.items() if value)
        name = APP if kind in {Kind.APP_STARTED, Kind.APP_EXITED} else self.record.instance
        one = Happening(kind=kind, id=self.record.pod, name=name, time_ns=time.time_ns(), data=data)
        self._ledger.tell(one)
        self._ring()


def _verdict(seen: Seen, record: Record) -> Status:
    """How it ended, in words."""
    if _is_lost(seen):
        state, text = State.CRASHED, "lost: nobody knows how it ended"
    elif seen.oom:
        state, text = State.FAILED, f"OOM: it took more than {record.order.limits.memory} MB"
    elif seen.exit_code:
        state, text = State.CRASHED, f"exit {seen.exit_code}"
    else:
        state, text = State.TERMINATED, "exit 0"
    return Status(state=State.TERMINATED if record.order.plain else state, description=text)


def _is_lost(seen: Seen) -> bool:
    """Whether nobody knows how it ended."""
    return seen.lost or seen.condition is not Condition.EXITED


def _reached(seen: Seen) -> str:
    """Where it can be reached."""
    ports = "/".join(f"{port.source}:{port.destination}" for port in seen.ports)
    told = {"ip": seen.ip, "ports": ports}
    return " ".join(f"{name}={value}" for name, value in told.items() if value)


def _pod(record: Record, node: str, cgroup: str) -> Pod:
    """The record as it is shown."""
    order, image = record.order, record.image or Image(id="")
    running, exited = record.pod_state is PodState.RUNNING, bool(record.ended_ns)
    state = AppState.RUNNING if running else AppState.EXITED if exited else AppState.UNDEFINED
    code = record.exit_code if state is AppState.EXITED else 0
    notes = order.annotations(node)
    manifest = pod_manifest(order.spec(), image, notes)
    shown = image.model_copy(update={"manifest": ""})
    network = Network(name=record.network, ipv4=record.ip)
    return Pod(
        id=record.pod,
        state=record.pod_state,
        pid=record.pid,
        apps=(App(name=APP, image=shown, state=state, exit_code=code, annotations=notes),),
        networks=(network,) if record.network else (),
        annotations=notes,
        cgroup=cgroup,
        created_ns=record.created_ns,
        started_ns=record.started_ns,
        marked_ns=time.time_ns() if record.pod_state is PodState.GARBAGE else 0,
        manifest=manifest,
    )
