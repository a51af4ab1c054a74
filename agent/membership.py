"""Being one of the control plane's nodes: registering, and a stream that says it lives."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import grpc
import grpc.aio
import structlog
from pydantic import Field

from agent.machine import Machine
from domain.agents import SECRET
from domain.frozen import Frozen
from domain.metadata import ADDRESS, ENCRYPTED, LABELS, POOL, RUNTIME
from domain.placement import Amounts
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub

BEAT_SECONDS = 1.0
FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.5, 3.0
"""However long the control plane was away, we are there again well before it gives us up for
lost."""

CALL_SECONDS = 10.0

log = structlog.get_logger()


class Card(Frozen):
    """Who this node is."""

    node: str
    certificate: str
    """PEM; or in development a token, which is the node's id."""
    address: str
    """Where the control plane reaches the agent."""
    pool: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    runtime: str = ""
    encrypted: bool = False
    """Whether it is reached by TLS, with that certificate."""
    secret: str = Field("", repr=False)
    """What whoever calls the agent has to carry. Empty: nothing."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        told = {
            ADDRESS: self.address,
            POOL: self.pool,
            LABELS: ",".join(f"{name}={value}" for name, value in self.labels),
            RUNTIME: self.runtime,
            ENCRYPTED: "true" if self.encrypted else "",
            SECRET: self.secret,
        }
        return tuple((name, value) for name, value in told.items() if value)


class Membership:
    def __init__(self, card: Card, channel: grpc.aio.Channel, machine: Machine) -> None:
        self._card, self._machine = card, machine
        self._nodes = NodeServiceStub(channel)
        self._state: pb.Status.ValueType = pb.RUNNING
        self._news = asyncio.Event()
        self._drained = asyncio.Event()

    async def register(self) -> str:
        """Be taken in, however long that takes; the answer is the block our pods' addresses come
        from."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = await self._nodes.Register(
                    pb.NodeRegisterRequest(certificate=self._card.certificate),
                    metadata=self._card.metadata,
                    timeout=CALL_SECONDS,
                )
                if answer.code == 0:
                    log.info("registered", node=self._card.node, subnet=answer.subnet)
                    return str(answer.subnet)
                log.warning("not registered", code=answer.code, why=answer.description)
            except grpc.aio.AioRpcError as error:
                log.warning("not registered", why=error.details(), code=error.code().name)
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE_SECONDS)

    async def stay(self, registered: Callable[[str], Awaitable[None]]) -> None:
        """Be a node until we have left: register, say so every second, and again if the control
        plane was away or has forgotten us."""
        while True:
            await registered(await self.register())
            try:
                await self._nodes.Status(self._beats())
                if self._drained.is_set():
                    return
            except grpc.aio.AioRpcError as error:
                log.warning("status stream ended", why=error.details(), code=error.code().name)
            if self._drained.is_set():
                return
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

    def drain(self) -> None:
        """Say that nothing more is taken."""
        self._state = pb.STOPPING
        self._news.set()

    def leave(self) -> None:
        """Say that all is stopped: the last word."""
        self._state = pb.TERMINATED
        self._drained.set()
        self._news.set()

    async def _beats(self) -> AsyncIterator[pb.NodeStatus]:
        while True:
            self._news.clear()
            state = self._state
            limit, usage = _summary(self._machine.has()), _summary(self._machine.uses())
            yield pb.NodeStatus(
                id=self._card.node,
                status=state,
                statusDescription="draining" if state == pb.STOPPING else "",
                resource=pb.Resource(limit=limit, usage=usage),
            )
            if state == pb.TERMINATED:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), timeout=BEAT_SECONDS)


def _summary(amounts: Amounts) -> pb.ResourceSummary:
    return pb.ResourceSummary(cpu=amounts.cpu, memory=amounts.memory, disk=amounts.disk)
