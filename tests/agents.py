"""Nodes to place instances on: an agent on a real socket that does as it is told, and does not
where a test wants it so."""

# ruff: noqa: ARG002, N802 (names and signatures are the contract's)

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Never

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.empty_pb2 import Empty
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from api.asking import Context
from protos.gen.agent import instance_pb2 as pb
from protos.gen.agent import node_pb2
from protos.gen.agent.instance_pb2_grpc import (
    InstanceServiceServicer,
    add_InstanceServiceServicer_to_server,
)
from protos.gen.agent.node_pb2_grpc import NodeServicer, add_NodeServicer_to_server
from protos.gen.kudo import scheduler_pb2 as kudo
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub

BEAT_SECONDS = 0.3


@dataclass
class Copy:
    """What an agent has of an instance, and what it has said of it so far."""

    order: pb.Instance
    incarnation: int
    beside: dict[str, str]
    said: list[pb.InstanceStatus] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, status: pb.Status.ValueType, description: str = "", cpu: int = 1) -> None:
        resource = None
        if status == pb.RUNNING:
            usage = pb.ResourceSummary(cpu=cpu, memory=1)
            resource = pb.Resource(limit=self.order.resource.limit, usage=usage)
        self.said.append(
            pb.InstanceStatus(
                id=self.order.id, status=status, description=description, resource=resource
            )
        )
        self.news.set()
        self.news = asyncio.Event()

    @property
    def runs(self) -> bool:
        return bool(self.said) and self.said[-1].status == pb.RUNNING


ENDINGS = (pb.TERMINATED, pb.CRASHED, pb.FAILED)


class Agent(InstanceServiceServicer, NodeServicer):
    """Makes copies that run at once, one for each instance."""

    def __init__(self) -> None:
        self.copies: dict[str, Copy] = {}
        self.made: list[tuple[str, int]] = []
        self.refuses = False
        self.hangs = False
        self.hung = asyncio.Event()
        """Set once somebody waits for an answer that does not come."""
        self._given_up = asyncio.Event()
        self.deaf = False
        """Whether it takes every call and answers none."""
        self.asked: Counter[str] = Counter()
        """How often, by call."""
        self.quiet = False
        """Whether it leaves it to the test what its copies say."""

    async def create(
        self, request: pb.Instance, context: Context
    ) -> AsyncIterator[pb.InstanceStatus]:
        await self._hear("create")
        if self.refuses:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more here")
        if self.hangs:
            self.hung.set()
            await self._given_up.wait()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "it took too long")
        copy = await self._copy(request, context)
        told = max(len(copy.said) - 1, 0) if copy.said else 0
        if (request.id, copy.incarnation) not in self.made:
            self.made.append((request.id, copy.incarnation))
            told = 0
            if not self.quiet:
                copy.say(pb.STARTING)
                copy.say(pb.RUNNING)
        while True:
            news = copy.news
            while told < len(copy.said):
                status = copy.said[told]
                told += 1
                yield status
                if status.status in ENDINGS:
                    return
            await news.wait()

    async def _hear(self, call: str) -> None:
        self.asked[call] += 1
        if self.deaf:
            await asyncio.Event().wait()

    def give_up(self) -> None:
        """Let go of those who wait."""
        self._given_up.set()

    async def _copy(self, request: pb.Instance, context: Context) -> Copy:
        beside = {key: str(value) for key, value in context.invocation_metadata() or ()}
        incarnation = int(beside.get("windlass-incarnation", "0"))
        copy = self.copies.get(request.id)
        if copy is not None and copy.incarnation > incarnation:
            await stale(context)
        if copy is None or copy.incarnation < incarnation:
            copy = self.copies[request.id] = Copy(request, incarnation, beside)
        return copy

    async def signal(
        self,
        request: pb.SignalInstruction,
        context: Context,
    ) -> Empty:
        if (copy := self.copies.pop(request.instance.id, None)) is not None:
            copy.say(pb.TERMINATED)
        return Empty()

    async def Stop(self, request: node_pb2.StopRequest, context: Context) -> node_pb2.Stopped:
        copy = await self._held(request.copy, context)
        copy.say(pb.STOPPING)
        copy.say(pb.STOPPING, "stopped")
        return node_pb2.Stopped()

    async def Start(self, request: node_pb2.Copy, context: Context) -> node_pb2.Started:
        copy = await self._held(request, context)
        if not copy.runs:
            copy.say(pb.RUNNING)
        return node_pb2.Started()

    async def Destroy(self, request: node_pb2.Copy, context: Context) -> node_pb2.Destroyed:
        await self._hear("Destroy")
        copy = self.copies.get(request.instance)
        if copy is not None and copy.incarnation > request.incarnation:
            await stale(context)
        if copy is not None:
            del self.copies[request.instance]
            copy.say(pb.TERMINATED)
        return node_pb2.Destroyed()

    async def Inventory(
        self, request: node_pb2.InventoryRequest, context: Context
    ) -> node_pb2.InventoryResponse:
        await self._hear("Inventory")
        copies = [
            node_pb2.Copy(instance=id, incarnation=copy.incarnation)
            for id, copy in self.copies.items()
        ]
        return node_pb2.InventoryResponse(held=[node_pb2.Held(copy=copy) for copy in copies])

    async def Exec(
        self, request: node_pb2.ExecRequest, context: Context
    ) -> AsyncIterator[node_pb2.ExecOutput]:
        yield await untold(context)

    async def Fetch(
        self, request: node_pb2.FetchRequest, context: Context
    ) -> node_pb2.FetchResponse:
        return await untold(context)

    async def _held(self, wanted: node_pb2.Copy, context: Context) -> Copy:
        copy = self.copies.get(wanted.instance)
        if copy is None or copy.incarnation != wanted.incarnation:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such copy")
        return copy


async def stale(context: Context) -> None:
    info = Packed()
    info.Pack(error_details_pb2.ErrorInfo(reason="STALE_INCARNATION", domain="windlass"))
    status = status_pb2.Status(code=9, message="a newer one is here", details=[info])
    trailers = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a newer one is here", trailers)


async def untold(context: Context) -> Never:
    """The scheduler never asks for this."""
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the scheduler never asks for this")


async def enrolled(
    channel: grpc.aio.Channel, node: str, address: str, *metadata: tuple[str, str]
) -> kudo.NodeRegisterResponse:
    """Register a node of which there is nothing: whoever answers at that address is its agent."""
    beside = (("windlass-agent-address", address), *metadata)
    request = kudo.NodeRegisterRequest(certificate=node)
    return await NodeServiceStub(channel).Register(request, metadata=beside, timeout=20)


class Host:
    """A node: its agent on a socket, registered and saying that it runs."""

    def __init__(self, id: str, scheduler: str, *, cpu: int = 100, original: bool = False) -> None:
        """`original`: its agent knows nothing but the original contract."""
        self.id = id
        self._original = original
        self.agent = Agent()
        self.address = ""
        self.limit = kudo.ResourceSummary(cpu=cpu, memory=100, disk=100)
        self._channel = grpc.aio.insecure_channel(scheduler)
        self.stub = NodeServiceStub(self._channel)
        self._server: grpc.aio.Server | None = None
        self._status: asyncio.Task[None] | None = None

    async def up(self) -> kudo.NodeRegisterResponse:
        """Listen, register, and say so from here on."""
        await self.listen()
        reply = await self.register()
        assert reply.code == 0, reply.description
        self._status = asyncio.create_task(self._say())
        return reply

    async def listen(self) -> None:
        self._server = grpc.aio.server()
        add_InstanceServiceServicer_to_server(self.agent, self._server)
        if not self._original:
            add_NodeServicer_to_server(self.agent, self._server)
        port = self._server.add_insecure_port(self.address or "127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def register(self) -> kudo.NodeRegisterResponse:
        return await enrolled(self._channel, self.id, self.address)

    async def down(self, *, killing: bool) -> None:
        """Fall silent and answer nobody. `killing`: with all that runs there."""
        if self._status is not None:
            self._status.cancel()
            with suppress(asyncio.CancelledError):
                await self._status
        if self._server is not None:
            await self._server.stop(0)
        if killing:
            self.agent.copies.clear()
            self.agent.made.clear()

    async def close(self) -> None:
        await self.down(killing=True)
        await self._channel.close()

    @property
    def running(self) -> list[str]:
        """The instances that run there."""
        return sorted(id for id, copy in self.agent.copies.items() if copy.runs)

    async def _say(self) -> None:
        resource = kudo.Resource(limit=self.limit, usage=kudo.ResourceSummary(cpu=1))
        status = kudo.NodeStatus(id=self.id, status=kudo.RUNNING, resource=resource)

        async def again() -> AsyncIterator[kudo.NodeStatus]:
            while True:
                yield status
                await asyncio.sleep(BEAT_SECONDS)

        with suppress(grpc.aio.AioRpcError):  # the scheduler goes down
            await self.stub.Status(again())
