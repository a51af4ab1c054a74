"""`python -m tests.bench.reader ADDRESS METHOD`: asks once with an empty request, reads the stream
to its end, and says how long that took. Nothing is made of the bytes."""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from time import perf_counter

import grpc.aio
import uvloop

from tests.bench.place import PYTHON, ROOT, Place


@dataclass(frozen=True)
class Stream:
    """What a reader saw."""

    messages: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


async def read(place: Place, address: str, method: str) -> Stream:
    """Read a stream in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, "-m", "tests.bench.reader", address, method),
        cwd=ROOT,
        env=place.environment,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return Stream(**json.loads(said))


async def messages(address: str, method: str) -> list[bytes]:
    """All of it, for those who want to say the same."""
    async with grpc.aio.insecure_channel(address) as channel:
        ask: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"/{method}")
        return [message async for message in ask(b"")]


async def _read(address: str, method: str) -> Stream:
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        ask: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"/{method}")
        count = length = 0
        began = perf_counter()
        async for message in ask(b""):
            count += 1
            length += len(message)
        return Stream(count, length, perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_read(*sys.argv[1:])))))
