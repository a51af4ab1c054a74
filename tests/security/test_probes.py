"""A16: a health probe asks the instance it is for, and nothing else that listens on its node."""

import asyncio

import pytest

from agent.probing import until_unhealthy
from agent.runtime import Condition, PortMap, Seen
from agent.simulated import Simulated
from domain.probing import Probe
from tests.support.load import limit


@pytest.mark.parametrize("there", [{"network": "host", "ip": "127.0.0.1"}, {}], ids=str)
@pytest.mark.parametrize("how", ["tcp", "http"])
async def test_a_foreign_port_of_the_node_is_not_asked(there: dict[str, str], how: str) -> None:
    """It listens, and was taken for the instance."""
    asked = asyncio.Event()

    async def answer(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        asked.set()
        writing.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        what = {"tcp": port} if how == "tcp" else {"http": f":{port}/"}
        probe = Probe(**what, start_seconds=0, retries=1, interval_seconds=0.01)
        seen = Seen(pod="p", condition=Condition.RUNNING, **there)
        async with limit(60):
            said = await until_unhealthy(probe, Simulated(), seen)
        assert said == f"unhealthy: port {port} is none of its own: publish it to have it probed"
        assert not asked.is_set()


async def test_a_published_port_is_asked() -> None:
    asked = asyncio.Event()

    async def answer(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        asked.set()
        writing.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ports = (PortMap(source=port, destination=80),)
        seen = Seen(pod="p", condition=Condition.RUNNING, network="host", ports=ports)
        probe = Probe(tcp=80, start_seconds=0, interval_seconds=0.01, timeout_seconds=30)
        asking = asyncio.create_task(until_unhealthy(probe, Simulated(), seen))
        async with limit(60):
            await asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
