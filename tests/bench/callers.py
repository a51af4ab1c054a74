"""Callers in a process of their own: so many at once, each with its next call when it has its
answer.

    python -m tests.bench.callers ADDRESS METHOD FILE CALLERS SECONDS

The file holds the requests, taken in turn; after so many seconds no more are made, and for 0
seconds each is made once."""

import asyncio
import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter

import grpc.aio
import uvloop

from tests.bench.figures import percentile
from tests.bench.place import PYTHON, ROOT, Place

WARMING_SECONDS = 0.3


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
    place: Place, address: str, method: str, requests: Path, *, callers: int, seconds: float = 0
) -> Load:
    """Let callers loose from a process of their own."""
    words = [address, method, str(requests), str(callers), str(seconds)]
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, "-m", "tests.bench.callers", *words),
        cwd=ROOT,
        env=place.environment,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return Load(**json.loads(said))


def write(file: Path, requests: Sequence[bytes]) -> Path:
    """Put requests where callers find them."""
    file.write_text(json.dumps([b64encode(request).decode() for request in requests]))
    return file


async def call(
    address: str, method: str, requests: Sequence[bytes], callers: int, seconds: float
) -> Load:
    took: list[float] = []
    refused = 0
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{method}")

        async def caller(turns: Iterator[bytes], until: float) -> None:
            nonlocal refused
            for request in turns:
                began = perf_counter()
                if began >= until:
                    return
                try:
                    await ask(request)
                except grpc.aio.AioRpcError:
                    refused += 1
                took.append(perf_counter() - began)

        async def together(turns: Iterator[bytes], until: float) -> None:
            await asyncio.gather(*(caller(turns, until) for _ in range(callers)))

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
