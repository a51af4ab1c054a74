"""An agent whose control plane is away knocks often: what gRPC allows itself by default, up to two
minutes between two tries, is a lease many times over."""

import asyncio
from itertools import pairwise

from agent.__main__ import KEEPALIVE
from agent.bearing import opened
from agent.membership import MOST_PAUSE_SECONDS
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub
from settings import Nodes
from tests.support.load import limit

SPREAD = 1.2
"""By so much more than is set gRPC may wait."""

TRIES = 6
"""So many, and by default the last pause is longer than five seconds."""

LONGEST_SECONDS = 4.0
"""Twice what is set, since it is spread, and the machine may be busy."""


async def test_who_finds_nobody_tries_again_every_two_seconds() -> None:
    times: list[float] = []
    enough = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == TRIES:
            enough.set()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        channel = opened(f"127.0.0.1:{port}", KEEPALIVE)
        register = NodeServiceStub(channel).Register
        call = register(pb.NodeRegisterRequest(certificate="n1"), wait_for_ready=True, timeout=120)
        waiting = asyncio.ensure_future(call)
        try:
            async with limit(60):
                await enough.wait()
        finally:
            waiting.cancel()
            await channel.close()
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert max(pauses) < LONGEST_SECONDS, pauses


def test_whoever_knocks_as_seldom_as_it_may_is_not_given_up_for_lost() -> None:
    """A control plane that has been away waits for a lease before it counts anybody as lost."""
    backoff = dict(KEEPALIVE)["grpc.max_reconnect_backoff_ms"] / 1000 * SPREAD
    assert MOST_PAUSE_SECONDS + backoff < Nodes().lost_seconds / 2
