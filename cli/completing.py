"""Names that exist right now, for the shell to complete.

The shell waits for us, so a server that does not answer at once has nothing to offer."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import typer

if TYPE_CHECKING:
    import grpc.aio

SECONDS = 0.3

Found: TypeAlias = list[tuple[str, str]]
"""What may be typed, and what it is."""


def cluster_names(context: typer.Context) -> Found:
    """Every cluster with its status."""

    async def names(channel: "grpc.aio.Channel") -> Found:
        from protos.gen.kaas import api_pb2, api_pb2_grpc

        reply = await api_pb2_grpc.ClusterStub(channel).GetClusterList(api_pb2.GetClusterListMsg())
        return [(item.name, api_pb2.ClusterStatus.Name(item.status)) for item in reply.clusters]

    return _in_time(context, names)


def operation_ids(context: typer.Context) -> Found:
    """The newest operations with what they are about."""

    async def ids(channel: "grpc.aio.Channel") -> Found:
        from protos.gen.ops import operations_pb2 as pb
        from protos.gen.ops.operations_pb2_grpc import OperationsStub

        reply = await OperationsStub(channel).List(pb.ListOperationsRequest(page_size=50))
        return [
            (
                operation.name.removeprefix("operations/"),
                f"{operation.kind} {operation.subject} {pb.Stage.Name(operation.stage)}",
            )
            for operation in reply.operations
        ]

    return _in_time(context, ids)


def _in_time(
    context: typer.Context, ask: "Callable[[grpc.aio.Channel], Awaitable[Found]]"
) -> Found:
    import asyncio

    import grpc

    from cli.calling import Call, Terms

    async def asked() -> Found:
        async with Call(Terms(address=_address(context))) as call, asyncio.timeout(SECONDS):
            return await ask(call.channel)

    try:
        return asyncio.run(asked())
    except (TimeoutError, grpc.RpcError, ValueError):
        return []


def _address(context: typer.Context | None) -> str | None:
    """The address typed so far. No command runs, so nobody has merged the terms yet."""
    while context is not None:
        if address := context.params.get("address"):
            return str(address)
        context = context.parent  # type: ignore[assignment]
    return None
