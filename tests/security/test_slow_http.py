"""A5: callers over HTTP that are slow are closed, and keep nobody out meanwhile."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2
import pytest

from api.connections import raise_descriptors
from settings import Limits
from tests.api.closed import Closed, closed
from tests.support.load import grown, limit

SMALL = Limits(
    http_connections=30,
    http_connections_per_address=30,
    http_head_seconds=1,
    http_body_seconds=1,
    http_idle_seconds=1,
    http_answer_seconds=1,
)
HEAD = b"POST /cluster HTTP/1.1\r\nhost: 127.0.0.1\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Closed]:
    async with closed(tmp_path_factory.mktemp("closed"), limits=SMALL) as served:
        yield served


async def connect(server: Closed) -> Streams:
    host, _, port = server.http.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What came until the connection was closed."""
    said = b""
    with suppress(ConnectionResetError):
        while piece := await reader.read(65536):
            said += piece
    return said


async def drip(writer: asyncio.StreamWriter) -> None:
    """One byte after the other, so that the connection is never idle."""
    with suppress(OSError):
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "begun",
    [b"", HEAD, HEAD + b"content-length: 100000\r\n\r\n"],
    ids=["nothing", "a head", "a body"],
)
async def test_a_request_that_does_not_come_to_its_end_is_closed(
    server: Closed, begun: bytes
) -> None:
    async with limit(30):
        reader, writer = await connect(server)
        writer.write(begun)
        dripping = asyncio.create_task(drip(writer))
        said = await ended(reader)
        assert b"200" not in said
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()


async def test_a_connection_without_requests_is_closed(server: Closed) -> None:
    async with limit(30):
        reader, writer = await connect(server)
        writer.write(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert (await ended(reader)).endswith(b"ok\n")
        writer.close()


async def test_slow_connections_give_way_to_probes(server: Closed) -> None:
    async with limit(40):
        slow = [await connect(server) for _ in range(100)]
        for _, writer in slow:
            writer.write(HEAD)
        for _ in range(5):  # each on a connection of its own
            async with httpx2.AsyncClient(trust_env=False, timeout=grown(10)) as http:
                answer = await http.get(f"{server.http}/livez")
                assert (answer.status_code, answer.text) == (200, "ok\n")
        for _, writer in slow:
            writer.close()


def test_as_many_descriptors_as_allowed_are_asked_for() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        assert raise_descriptors() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
