"""A caller: a channel to a server, the stubs of what is served, and what refusals say."""

from collections.abc import Awaitable
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import grpc
import grpc.aio
from google.longrunning.operations_pb2_grpc import (  # type: ignore[import-untyped]
    OperationsStub as LongRunningStub,
)
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from protos.gen.kaas import api_pb2 as kaas
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from protos.gen.ops.clusters_pb2_grpc import ClustersStub
from protos.gen.ops.operations_pb2_grpc import OperationsStub

NOBODY = "127.0.0.1:1"
"""Where nothing listens."""

Reply = TypeVar("Reply")


class Caller:
    """Someone with a connection to a server. Calls have a deadline, so that a test cannot hang."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = grpc.aio.insecure_channel(address)
        self.cluster = ClusterStub(self.channel)
        self.operations = OperationsStub(self.channel)
        self.views = ClustersStub(self.channel)
        self.long_running = LongRunningStub(self.channel)

    async def close(self) -> None:
        await self.channel.close()

    async def raw(self, method: str, request: bytes) -> bytes:
        """Call a method by its name with any bytes."""
        return await self.method(method)(request, timeout=20)

    def method(self, name: str) -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
        """A method by its full name, from bytes to bytes."""
        return self.channel.unary_unary(f"/{name}")


class Refusal(NamedTuple):
    """What a caller reads out of an error."""

    code: grpc.StatusCode
    message: str
    reason: str
    facts: dict[str, str]
    fields: list[str]
    """The fields named in BadRequest."""
    retry: bool
    """Whether it says after how long to try again."""
    trailers: dict[str, Any]


async def refused(call: Awaitable[Any]) -> Refusal:
    """The refusal of a call that must not succeed. Its details must be whole."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return read(error)
    raise AssertionError("the call was not refused")


def read(error: grpc.aio.AioRpcError) -> Refusal:
    trailers: dict[str, Any] = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
    infos, fields, retries = [], [], 0
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            infos.append(error_details_pb2.ErrorInfo.FromString(detail.value))
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest.FromString(detail.value)
            fields += [violation.field for violation in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retries += 1
    assert [info.domain for info in infos] == ["windlass"], "exactly one ErrorInfo"
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    return Refusal(
        error.code(),
        error.details() or "",
        infos[0].reason,
        dict(infos[0].metadata),
        fields,
        retries == 1,
        trailers,
    )


async def answered(call: "grpc.aio.UnaryUnaryCall[Any, Reply]") -> tuple[Reply, dict[str, str]]:
    """The reply of a call and what came beside it."""
    reply = await call
    return reply, {key: str(value) for key, value in await call.trailing_metadata()}


def wanted(name: str = "hello", **more: Any) -> kaas.CreateClusterMsg:
    """A cluster as a plain client asks for it."""
    more.setdefault("control_plane_nodes", kaas.ControlPlaneMachineSpec())
    return kaas.CreateClusterMsg(name=name, **more)


def pool(name: str = "pool", **more: Any) -> kaas.MachineSpec:
    return kaas.MachineSpec(name=name, **more)


def label(name: str, value: str = "") -> kaas.KubernetesLabel:
    return kaas.KubernetesLabel(name=name, value=value)


def under(key: str | None = None) -> tuple[tuple[str, str], ...]:
    """Metadata with a request id."""
    return (("x-request-id", key or str(uuid4())),)
