"""A control plane, as far as an agent can tell: it takes nodes in, and what they tell."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
from google.protobuf.empty_pb2 import Empty

from agent.bearing import carrying
from protos.gen.agent import instance_pb2 as agent_pb2
from protos.gen.agent import node_pb2 as pb
from protos.gen.agent.instance_pb2_grpc import InstanceServiceStub
from protos.gen.agent.node_pb2_grpc import (
    NodeStub,
    WindowServicer,
    add_WindowServicer_to_server,
)
from protos.gen.kudo import scheduler_pb2 as kudo_pb2
from protos.gen.kudo.scheduler_pb2_grpc import (
    NodeServiceServicer,
    add_NodeServiceServicer_to_server,
)
from protos.gen.rkt import api_pb2 as rkt_pb2
from protos.gen.rkt.api_pb2_grpc import PublicAPIStub
from tests.support.load import limit

PATIENCE_SECONDS = 20.0


class Control(NodeServiceServicer, WindowServicer):
    def __init__(self, subnet: str = "10.64.7.0/24") -> None:
        self.subnet = subnet
        self._server = grpc.aio.server()
        add_NodeServiceServicer_to_server(self, self._server)
        add_WindowServicer_to_server(self, self._server)
        self.cards: list[dict[str, str]] = []
        self.beats: list[kudo_pb2.NodeStatus] = []
        self.items: dict[int, pb.Item] = {}
        self.hang_up = asyncio.Event()
        """Set it, and the stream that is open is ended with an error, once."""
        self.news = asyncio.Condition()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.address = f"{host}:{self._server.add_insecure_port(f'{host}:{port}')}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)

    async def until(self, holds: Any) -> None:
        """Wait for something to be so."""
        async with limit(PATIENCE_SECONDS), self.news:
            await self.news.wait_for(holds)

    async def Register(
        self, request: kudo_pb2.NodeRegisterRequest, context: Any
    ) -> kudo_pb2.NodeRegisterResponse:
        told = {name: str(value) for name, value in context.invocation_metadata()}
        self.cards.append({"certificate": request.certificate, **told})
        await self._tell()
        if len(self.cards) == 1:  # agents try again
            return kudo_pb2.NodeRegisterResponse(code=1, description="not now")
        return kudo_pb2.NodeRegisterResponse(subnet=self.subnet)

    async def Status(self, request: AsyncIterator[kudo_pb2.NodeStatus], context: Any) -> Empty:
        async for beat in request:
            self.beats.append(beat)
            await self._tell()
            if self.hang_up.is_set():
                self.hang_up.clear()
                await context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        return Empty()

    async def Unregister(
        self, request: kudo_pb2.NodeUnregisterRequest, context: Any
    ) -> kudo_pb2.NodeUnregisterResponse:
        return kudo_pb2.NodeUnregisterResponse()

    async def Report(self, request: pb.ReportRequest, context: Any) -> pb.ReportResponse:
        self.items |= {item.number: item for item in request.items}
        await self._tell()
        return pb.ReportResponse(taken=max(self.items, default=0))

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()


class Scheduler:
    """Whoever gives an agent its orders."""

    def __init__(self, address: str, secret: str = "") -> None:
        carriers = carrying(secret) if secret else []
        self.channel = grpc.aio.insecure_channel(address, interceptors=carriers)
        self.instances = InstanceServiceStub(self.channel)
        self.node = NodeStub(self.channel)
        self.public = PublicAPIStub(self.channel)

    async def close(self) -> None:
        await self.channel.close()

    def create(
        self, id: str, program: str, incarnation: int | None = 1, **more: Any
    ) -> "grpc.aio.UnaryStreamCall[agent_pb2.Instance, agent_pb2.InstanceStatus]":
        metadata = {"windlass-incarnation": str(incarnation)} if incarnation is not None else {}
        metadata |= more.pop("metadata", {})
        instance = agent_pb2.Instance(id=id, name=id, uri=f"builtin:{program}", **more)
        return self.instances.create(
            instance, metadata=tuple(metadata.items()), timeout=PATIENCE_SECONDS
        )

    async def until(self, statuses: Any, state: "agent_pb2.Status.ValueType") -> str:
        """Read a stream up to a state; the answer is its description."""
        async for status in statuses:
            if status.status == state:
                return str(status.description)
        raise AssertionError("the stream ended before")

    async def running(self, id: str, program: str, incarnation: int = 1, **more: Any) -> str:
        """Have an instance run. The answer is its pod."""
        call = self.create(id, program, incarnation, **more)
        await self.until(call, agent_pb2.RUNNING)
        call.cancel()
        return next(held.pod for held in await self.held() if held.copy.instance == id)

    async def held(self) -> list[pb.Held]:
        answer = await self.node.Inventory(pb.InventoryRequest(), timeout=PATIENCE_SECONDS)
        return list(answer.held)

    async def pod(self, id: str) -> rkt_pb2.Pod:
        asked = rkt_pb2.InspectPodRequest(id=id)
        return (await self.public.InspectPod(asked, timeout=PATIENCE_SECONDS)).pod

    async def log(self, pod: str, **more: Any) -> list[str]:
        asked = rkt_pb2.GetLogsRequest(pod_id=pod, **more)
        told = self.public.GetLogs(asked, timeout=PATIENCE_SECONDS)
        return [line.split(" ", 1)[1] async for message in told for line in message.lines]

    async def first(self, pod: str, number: int) -> list[str]:
        """The first lines of a pod, waited for."""
        asked = rkt_pb2.GetLogsRequest(pod_id=pod, follow=True)
        told = self.public.GetLogs(asked, timeout=PATIENCE_SECONDS)
        found: list[str] = []
        async for message in told:
            found += [line.split(" ", 1)[1] for line in message.lines]
            if len(found) >= number:
                break
        told.cancel()
        return found[:number]


def copy(instance: str, incarnation: int = 1) -> pb.Copy:
    return pb.Copy(instance=instance, incarnation=incarnation)
