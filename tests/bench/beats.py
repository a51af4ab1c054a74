"""What a thousand agents cost that say every second that they live, beside a server that hears them
out and does nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc.aio

from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub
from tests.agents import Host
from tests.bench.figures import Figure, Target, figure, ratio
from tests.bench.place import PYTHON, Part, Place, place

AGENTS = 1000
REGISTERING = 16
BEAT_SECONDS = 1.0
SETTLE_SECONDS = 3.0
SECONDS = 10.0
MOST_CORES = Target(most=0.5)
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


class Agent:
    """A node with a connection of its own, which uses a little more or less every second."""

    def __init__(self, number: int) -> None:
        self._id, self._number = f"n{number:04}", number
        self.beats = 0

    async def register(self, target: str, address: str) -> None:
        async with grpc.aio.insecure_channel(target, options=OWN_CONNECTION) as channel:
            answer = await NodeServiceStub(channel).Register(
                pb.NodeRegisterRequest(certificate=self._id),
                metadata=(("windlass-agent-address", address),),
            )
        if answer.code != 0:
            raise RuntimeError(answer.description)

    async def live(self, target: str) -> None:
        """Beat until cancelled."""
        async with grpc.aio.insecure_channel(target, options=OWN_CONNECTION) as channel:
            await NodeServiceStub(channel).Status(self._said())

    async def _said(self) -> AsyncIterator[pb.NodeStatus]:
        await asyncio.sleep(BEAT_SECONDS * self._number / AGENTS)
        limit = pb.ResourceSummary(cpu=16_000, memory=64_000, disk=500)
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            usage = pb.ResourceSummary(cpu=self.beats % 7, memory=self._number, disk=1)
            resource = pb.Resource(limit=limit, usage=usage)
            yield pb.NodeStatus(id=self._id, status=pb.RUNNING, resource=resource)
            self.beats += 1
            due += BEAT_SECONDS
            await asyncio.sleep(due - loop.time())


async def measure(repeats: int) -> list[Figure]:
    """The same agents with one after the other, for the time of all repeats."""
    async with place(worker=False) as site, AsyncExitStack() as stack:
        host = Host("host", site.grpc)
        await host.listen()
        stack.push_async_callback(host.close)
        agents = [Agent(number) for number in range(AGENTS)]
        gate = asyncio.Semaphore(REGISTERING)

        async def register(agent: Agent) -> None:
            async with gate:
                await agent.register(site.grpc, host.address)

        await asyncio.gather(*map(register, agents))
        ours, heard = await _heard(agents, site.grpc, site.parts["api"], repeats)
        bare, _ = await _heard(agents, *await _echo(site), repeats)
    return [
        figure(f"API process, {AGENTS} agents", "cores", *ours, target=MOST_CORES),
        figure("beats", "/s", *heard),
        figure("a server that only hears them out", "cores", *bare),
        ratio("API process / bare server", ours, bare),
    ]


async def _echo(site: Place) -> tuple[str, Part]:
    empty = site.state / "empty"
    empty.write_bytes(b"")
    part = await site.start("echo", PYTHON, "-m", "tests.bench.echo", str(empty))
    return (await part.told("ready"))["grpc"], part


async def _heard(
    agents: list[Agent], target: str, part: Part, repeats: int
) -> tuple[list[float], list[float]]:
    """What the process used of the processors each second, and how often it was told."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        living = [tasks.create_task(agent.live(target)) for agent in agents]
        await asyncio.sleep(SETTLE_SECONDS)
        cores, rates = [], []
        for _ in range(repeats):
            began, used, told = loop.time(), part.cpu_seconds(), sum(a.beats for a in agents)
            await asyncio.sleep(SECONDS)
            took = loop.time() - began
            cores.append((part.cpu_seconds() - used) / took)
            rates.append((sum(agent.beats for agent in agents) - told) / took)
        for each in living:
            each.cancel()
    return cores, rates
