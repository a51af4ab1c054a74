"""Users who know what an answer that got lost means: they ask again under the same request id."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import grpc
import grpc.aio
from google.longrunning import operations_pb2 as longrunning  # type: ignore[import-untyped]
from google.longrunning.operations_pb2_grpc import (  # type: ignore[import-untyped]
    OperationsStub as LongRunningStub,
)
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from protos.gen.kaas import api_pb2 as kaas
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from protos.gen.ops import operations_pb2 as ops
from protos.gen.ops.operations_pb2_grpc import OperationsStub
from tests.support.load import limit

CALL_SECONDS = 10.0
INSIST_SECONDS = 120.0
BACKOFF = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 300,
}
"""A killed server is back within seconds; by default callers would wait for minutes."""

REPEATED = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

Call = Callable[..., "grpc.aio.UnaryUnaryCall[Any, Any]"]


class Answer(NamedTuple):
    reply: Any
    operation: str
    tries: int


class Ending(NamedTuple):
    """How an operation ended, as whoever watched it was told."""

    stage: str
    note: str
    seconds: float


class Users:
    """Any number of users on one connection."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address, options=list(BACKOFF.items()))
        self.clusters = ClusterStub(self.channel)
        self.operations = OperationsStub(self.channel)
        self.refusals: Counter[str] = Counter()
        """What calls were refused with, by code and reason, until they were answered."""
        self.gaps: list[str] = []
        """Watches that were told an event twice, out of order, or not at all."""

    async def close(self) -> None:
        await self.channel.close()

    async def create(self, name: str, *, control_planes: int = 1, workers: int = 1) -> Answer:
        return await self.insist(
            self.clusters.CreateCluster, order(name, control_planes, workers), str(uuid4())
        )

    async def delete(self, name: str) -> Answer:
        request = kaas.DeleteClusterMsg(name=name)
        return await self.insist(self.clusters.DeleteCluster, request, str(uuid4()))

    async def scale(self, name: str, pool: str, count: int) -> Answer:
        size = kaas.ScaleNodePoolSpec(name=pool, count=count)
        request = kaas.ScaleNodePoolMsg(clusterName=name, node_pools=[size])
        return await self.insist(self.clusters.ScaleNodePool, request, str(uuid4()))

    async def add_pool(self, name: str, pool: str, count: int) -> Answer:
        added = kaas.MachineSpec(name=pool, count=count)
        request = kaas.AddNodePoolMsg(clusterName=name, worker_node_pools=[added])
        return await self.insist(self.clusters.AddNodePool, request, str(uuid4()))

    async def drop_pool(self, name: str, pool: str) -> Answer:
        request = kaas.DeleteNodePoolMsg(clusterName=name, node_pool_names=[pool])
        return await self.insist(self.clusters.DeleteNodePool, request, str(uuid4()))

    async def upgrade(self, name: str, version: str) -> Answer:
        request = kaas.UpgradeClusterMsg(name=name, version=version)
        return await self.insist(self.clusters.UpgradeCluster, request, str(uuid4()))

    async def cancel(self, operation: str) -> bool:
        """Call an operation off. False: it had ended before."""
        request = longrunning.CancelOperationRequest(name=f"operations/{operation}")
        try:
            await self.insist(LongRunningStub(self.channel).CancelOperation, request)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return False
        return True

    async def unless(self, refused: str, asking: Awaitable[Answer]) -> Answer:
        """An answer without an operation if that is what it is refused with: its code and, where
        it has one, our reason."""
        try:
            return await asking
        except grpc.aio.AioRpcError as error:
            if not refusal(error).startswith(refused):
                raise
            return Answer(None, "", 1)

    async def insist(self, call: Call, request: Any, key: str = "") -> Answer:
        """Ask until there is an answer. Any refusal but "try again" is raised."""
        deadline = monotonic() + INSIST_SECONDS
        metadata = (("x-request-id", key),) if key else ()
        tries = 0
        while True:
            tries += 1
            asked = call(request, timeout=CALL_SECONDS, metadata=metadata)
            try:
                reply = await asked
            except grpc.aio.AioRpcError as error:
                self.refusals[refusal(error)] += 1
                if error.code() not in REPEATED or monotonic() > deadline:
                    raise
                await asyncio.sleep(random.uniform(0.05, 0.25))  # noqa: S311 - jitter
            else:
                trailers = dict(await asked.trailing_metadata() or ())
                return Answer(reply, str(trailers.get("windlass-operation", "")), tries)

    async def watch(self, operation: str, *, seconds: float) -> Ending:
        """Follow an operation to its end, and take the watch up again whenever it breaks."""
        async with limit(seconds):
            after = 0
            while True:
                request = ops.WatchOperationRequest(name=operation, after=after)
                try:
                    async for event in self.operations.Watch(request):
                        if event.number != after + 1:
                            self.gaps.append(f"{operation}: {event.number} after {after}")
                        after = event.number
                        if event.last:
                            return _ending(event)
                except grpc.aio.AioRpcError as error:
                    self.refusals[refusal(error)] += 1
                    if error.code() not in REPEATED:
                        raise
                await asyncio.sleep(0.1)


def order(name: str, control_planes: int, workers: int) -> kaas.CreateClusterMsg:
    return kaas.CreateClusterMsg(
        name=name,
        control_plane_nodes=kaas.ControlPlaneMachineSpec(count=control_planes),
        worker_node_pools=[kaas.MachineSpec(name="w", count=workers)],
    )


def refusal(error: grpc.aio.AioRpcError) -> str:
    """The code, and our own reason if it is our server that refuses."""
    trailers = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            return f"{error.code().name} {info.reason}"
    return error.code().name


def _ending(event: ops.OperationEvent) -> Ending:
    operation = event.operation
    seconds = operation.ended.ToMilliseconds() - operation.created.ToMilliseconds()
    return Ending(ops.Stage.Name(operation.stage), event.note, seconds / 1000)
