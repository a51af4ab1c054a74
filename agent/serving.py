"""What an agent serves: the first scheduler's contract, and ours beside it."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from google.protobuf.empty_pb2 import Empty

from agent import convert
from agent.images import Images
from agent.instances import Instances
from agent.runtime import Info
from api.asking import Context
from domain.errors import Conflict, Invalid
from protos.gen.agent import instance_pb2 as agent_pb2
from protos.gen.agent import node_pb2 as pb
from protos.gen.agent.instance_pb2_grpc import InstanceServiceServicer
from protos.gen.agent.node_pb2_grpc import NodeServicer

POD = "windlass-pod"
"""Initial metadata that says which pod an instance is here."""

EXEC_SECONDS, MOST_EXEC_SECONDS = 30.0, 3600.0


class InstanceService(InstanceServiceServicer):
    def __init__(self, instances: Instances, *, grace_seconds: float) -> None:
        self._instances, self._grace_seconds = instances, grace_seconds

    async def create(
        self, request: agent_pb2.Instance, context: Context
    ) -> AsyncIterator[agent_pb2.InstanceStatus]:
        order = convert.order(request, context.invocation_metadata() or ())
        carried, new = await self._instances.run(order)
        await context.send_initial_metadata(((POD, carried.record.pod),))
        async with aclosing(carried.follow(whole=new)) as statuses:
            async for status in statuses:
                yield convert.status(request.id, status, carried.record.order.limits)

    async def signal(self, request: agent_pb2.SignalInstruction, context: Context) -> Empty:
        """As the first agent did, a stop removes, unless it is asked to keep."""
        if not request.instance.id:
            raise Invalid("the signal names no instance", reason="ORDER_INVALID")
        metadata = context.invocation_metadata() or ()
        incarnation = convert.incarnation(metadata)
        carried = self._instances.get(request.instance.id, incarnation)
        if request.signal == agent_pb2.STOP:
            await carried.stop(self._grace_seconds)
        if request.signal == agent_pb2.KILL or not convert.keeps(metadata):
            await self._instances.destroy(request.instance.id, incarnation)
        return Empty()


class Node(NodeServicer):
    def __init__(
        self, instances: Instances, images: Images, info: Info, why: str, *, grace_seconds: float
    ) -> None:
        self._instances, self._images, self._info, self._why = instances, images, info, why
        self._grace_seconds = grace_seconds

    async def Stop(self, request: pb.StopRequest, context: Context) -> pb.Stopped:
        carried = self._instances.get(request.copy.instance, request.copy.incarnation)
        code = await carried.stop(request.grace_seconds or self._grace_seconds)
        return pb.Stopped(exit_code=code)

    async def Start(self, request: pb.Copy, context: Context) -> pb.Started:
        if self._instances.draining:
            raise Conflict("the node is draining", reason="NODE_DRAINING")
        await self._instances.get(request.instance, request.incarnation).start()
        return pb.Started()

    async def Destroy(self, request: pb.Copy, context: Context) -> pb.Destroyed:
        await self._instances.destroy(request.instance, request.incarnation)
        return pb.Destroyed()

    async def Inventory(
        self, request: pb.InventoryRequest, context: Context
    ) -> pb.InventoryResponse:
        held = [convert.held(record) for record in self._instances.held()]
        return pb.InventoryResponse(held=held, runtime=self._info.name, why=self._why)

    async def Exec(self, request: pb.ExecRequest, context: Context) -> AsyncIterator[pb.ExecOutput]:
        if not request.command:
            raise Invalid("there is no command", reason="ORDER_INVALID")
        seconds = min(request.timeout_seconds or EXEC_SECONDS, MOST_EXEC_SECONDS)
        output = await self._instances.exec(request.instance, list(request.command), seconds)
        yield pb.ExecOutput(
            stdout=output.stdout, stderr=output.stderr, ended=True, exit_code=output.exit_code
        )

    async def Fetch(self, request: pb.FetchRequest, context: Context) -> pb.FetchResponse:
        image = await self._images.fetch(request.uri)
        return pb.FetchResponse(image=image.id)
