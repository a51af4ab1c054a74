"""Connections to a socket that gRPC cannot be given: all that is said goes through, both ways, and
whoever hangs up is missed on the other side."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from api.relay import Relay
from tests.support.load import limit

PATIENCE_SECONDS = 20.0
LONG = bytes(range(256)) * 20_000

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def relayed(serve: Serve) -> AsyncIterator[tuple[Relay, Callable[[], Awaitable[Streams]]]]:
    """A relay to somebody who serves so, and how to come to it."""
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    relay = Relay(listening)
    async with await asyncio.start_unix_server(serve, relay.address.removeprefix("unix:")):
        await relay.start()
        try:
            async with limit(PATIENCE_SECONDS):
                yield relay, lambda: asyncio.open_connection(host, port)
        finally:
            relay.close()
            await relay.stop()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(4096):
        writer.write(piece)
        await writer.drain()
    writer.close()


async def test_all_that_is_said_comes_back_as_it_was() -> None:
    async with relayed(echo) as (_, come):

        async def said(number: int) -> bytes:
            reader, writer = await come()
            writer.write(LONG + bytes([number]))
            answer = await reader.readexactly(len(LONG) + 1)
            writer.close()
            return answer

        found = await asyncio.gather(*map(said, range(8)))
        assert found == [LONG + bytes([number]) for number in range(8)]


async def test_whoever_hangs_up_is_missed() -> None:
    gone = asyncio.Event()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        gone.set()

    async with relayed(hear) as (_, come):
        _, writer = await come()
        writer.close()
        await gone.wait()


@pytest.mark.parametrize("last", [b"", b"the last word"])
async def test_whoever_is_hung_up_on_hears_it_out(last: bytes) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(last)
        writer.close()

    async with relayed(hang_up) as (_, come):
        reader, writer = await come()
        assert await reader.read() == last
        writer.close()


async def test_in_the_end_nobody_is_taken_in_and_nothing_stays_open() -> None:
    async with relayed(echo) as (relay, come):
        reader, writer = await come()
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        relay.close()
        writer.write(b"y")  # what is open goes on
        assert await reader.readexactly(1) == b"y"
        with pytest.raises(ConnectionRefusedError):
            await come()
        await relay.stop()
        assert await reader.read() == b""
        writer.close()
