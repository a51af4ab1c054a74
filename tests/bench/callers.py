"""Callers in a process of their own: so many at once, each with its next call when it has its
answer.

    python -m tests.bench.callers ADDRESS METHOD FILE CALLERS SECONDS

The file holds the requests, taken in turn; after so many seconds no more are made, and for 0
seconds each is made once. Whoever has WINDLASS_TOKEN in the environment carries that. An address
that begins with http:// is called by Connect, with requests that are JSON."""

import asyncio
import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import grpc.aio
import uvloop

from tests.bench.figures import percentile
from tests.bench.place import PYTHON, ROOT, Place

WARMING_SECONDS = 0.3

Ask: TypeAlias = Callable[[bytes], Awaitable[bool]]
"""Makes a call, and tells whether it was answered well."""
Opened: TypeAlias = Callable[[], Awaitable[Ask]]
"""Has one more caller connected."""


@dataclass(frozen=True)
class Load:
    """What callers saw."""

    calls: int
    seconds: float
    middle_ms: float
    worst_ms: float
    """What one call in a hundred exceeded."""
    refused: int

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


async def load(
    place: Place,
    address: str,
    method: str,
    requests: Path,
    *,
    callers: int,
    seconds: float = 0,
    token: str = "",
) -> Load:
    """Let callers loose from a process of their own."""
    words = [address, method, str(requests), str(callers), str(seconds)]
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, "-m", "tests.bench.callers", *words),
        cwd=ROOT,
        env={**place.environment, "WINDLASS_TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return Load(**json.loads(said))


def write(file: Path, requests: Sequence[bytes]) -> Path:
    """Put requests where callers find them."""
    file.write_text(json.dumps([b64encode(request).decode() for request in requests]))
    return file


@asynccontextmanager
async def native(address: str, method: str, token: str) -> AsyncIterator[Opened]:
    """All callers on one connection, over gRPC."""
    carried = (("authorization", f"Bearer {token}"),) if token else None
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        calling: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{method}")

        async def ask(request: bytes) -> bool:
            try:
                await calling(request, metadata=carried)
            except grpc.aio.AioRpcError:
                return False
            return True

        async def opened() -> Ask:
            return ask

        yield opened


@asynccontextmanager
async def connect(address: str, method: str, token: str) -> AsyncIterator[Opened]:
    """Each caller on a connection of its own, which is kept, over HTTP/1.1."""
    host, port = address.removeprefix("http://").rsplit(":", 1)
    head = f"POST /{method} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
    head += f"authorization: Bearer {token}\r\n" if token else ""
    writers: list[asyncio.StreamWriter] = []

    async def opened() -> Ask:
        reader, writer = await asyncio.open_connection(host, int(port))
        writers.append(writer)

        async def ask(request: bytes) -> bool:
            writer.write(f"{head}content-length: {len(request)}\r\n\r\n".encode() + request)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            if sized := next((it for it in lines if it.startswith(b"content-length:")), None):
                await reader.readexactly(int(sized.partition(b":")[2]))
            else:
                await _chunks(reader)
            return lines[0].split(b" ")[1] == b"200"

        return ask

    yield opened
    for writer in writers:
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> None:
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()


async def call(
    address: str, method: str, requests: Sequence[bytes], callers: int, seconds: float
) -> Load:
    took: list[float] = []
    refused = 0
    way = connect if address.startswith("http://") else native
    async with way(address, method, os.environ.get("WINDLASS_TOKEN", "")) as opened:
        asking = [await opened() for _ in range(callers)]

        async def caller(ask: Ask, turns: Iterator[bytes], until: float) -> None:
            nonlocal refused
            for request in turns:
                began = perf_counter()
                if began >= until:
                    return
                refused += not await ask(request)
                took.append(perf_counter() - began)

        async def together(turns: Iterator[bytes], until: float) -> None:
            await asyncio.gather(*(caller(ask, turns, until) for ask in asking))

        if seconds:
            await together(cycle(requests), perf_counter() + WARMING_SECONDS)
            took.clear()
        began = perf_counter()
        until = began + seconds if seconds else float("inf")
        await together(cycle(requests) if seconds else iter(requests), until)
        passed = perf_counter() - began
    middle, worst = (1000 * percentile(took, share) for share in (0.5, 0.99))
    return Load(len(took), passed, middle, worst, refused)


if __name__ == "__main__":
    address, method, file, callers, seconds = sys.argv[1:]
    given = [b64decode(text) for text in json.loads(Path(file).read_text())]
    seen = uvloop.run(call(address, method, given, int(callers), float(seconds)))
    print(json.dumps(asdict(seen)))
