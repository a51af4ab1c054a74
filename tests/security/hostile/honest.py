"""A client that does nothing wrong: `python -m tests.security.hostile.honest GRPC LOCAL SECONDS
TOKEN` prints how its calls went."""

import asyncio
import json
import sys
from time import perf_counter

import grpc.aio

from protos.gen.ops import access_pb2
from protos.gen.ops.access_pb2_grpc import UsersStub
from tests.security.hostile.attacks import channel_to
from tests.security.hostile.forwarder import forwarded

PAUSE_SECONDS = 0.02
CALL_SECONDS = 5.0


async def calls(address: str, local: str, seconds: float, token: str) -> dict[str, object]:
    took: list[float] = []
    failed: dict[str, int] = {}
    given = (("authorization", f"Bearer {token}"),)
    async with forwarded(address, local) as near, channel_to(near) as channel:
        users, asked = UsersStub(channel), access_pb2.WhoAmIRequest()
        until = perf_counter() + seconds
        while perf_counter() < until:
            began = perf_counter()
            try:
                await users.WhoAmI(asked, metadata=given, timeout=CALL_SECONDS)
                took.append(perf_counter() - began)
            except grpc.aio.AioRpcError as error:
                name = error.code().name
                failed[name] = failed.get(name, 0) + 1
            await asyncio.sleep(PAUSE_SECONDS)
    return {"took": took, "failed": failed}


if __name__ == "__main__":
    to, local, seconds, token = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(calls(to, local, float(seconds), token))))
