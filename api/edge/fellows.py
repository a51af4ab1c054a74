"""The other API processes, as one of them calls another: for the caller it has itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc.aio

from api.asking import Context
from api.gate import AUTHORIZATION

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]

OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


@asynccontextmanager
async def called(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        yield channel


def on_behalf(context: Context) -> Metadata:
    """What a call carries that is made for another one: who asks."""
    given = context.invocation_metadata() or ()
    return tuple((name, value) for name, value in given if name == AUTHORIZATION)
