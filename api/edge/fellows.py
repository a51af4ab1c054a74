"""The other API processes, as one of them calls another: for the caller it has itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc
import grpc.aio

from api.asking import Context
from api.gate import AUTHORIZATION
from api.tls import Peers

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]

OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


@asynccontextmanager
async def called(address: str, peers: Peers) -> AsyncIterator[grpc.aio.Channel]:
    """`peers` is how we speak to one another."""
    trusted = peers.credentials()
    if trusted is not None:
        channel = grpc.aio.secure_channel(address, trusted, options=OPTIONS)
    else:
        channel = grpc.aio.insecure_channel(address, options=OPTIONS)
    async with channel:
        yield channel


def on_behalf(context: Context) -> Metadata:
    """What a call carries that is made for another one: the token of who asks. Whoever has none
    came by a certificate, which is nobody else's to show: then it is asked for by us."""
    given = context.invocation_metadata() or ()
    return tuple((name, value) for name, value in given if name == AUTHORIZATION)
