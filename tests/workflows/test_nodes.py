"""Instances on our own agents, end to end: from the scheduler's door to a node, and back into the
window onto the fleet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest

from agent.runtime import Condition
from agent.simulated import Simulated
from agent.whole import Agent, Plan
from domain.instance import Call
from domain.placement import Amounts
from protos.gen.rkt import api_pb2 as rkt
from protos.gen.rkt.api_pb2_grpc import PublicAPIStub
from store import placing
from tests.cli.running import Outcome, in_process
from tests.store.desk import until
from tests.support.load import grown
from tests.workflows.harbour import PATIENCE_SECONDS, Harbour, Listener, asked
from tests.workflows.test_instances import RUNS, Opening, opened

__all__ = ["opened"]


SMALL = Amounts(cpu=100, memory=100, disk=100)


class Node:
    """A machine with an agent on it, which may go and come back."""

    def __init__(
        self, id: str, place: Harbour, folder: Path, pool: str, has: Amounts = SMALL
    ) -> None:
        self.id, self._place, self._pool, self._has = id, place, pool, has
        self._folder = folder / id
        self._folder.mkdir()
        self.runtime = Simulated(folder=self._folder)
        self._listens = "127.0.0.1:0"
        self._channel = grpc.aio.insecure_channel(place.address)

    async def up(self) -> None:
        plan = Plan(
            node=self.id,
            folder=self._folder,
            listen=self._listens,
            pool=self._pool,
            has=self._has,
        )
        self._agent = Agent(plan, self.runtime, self._channel)
        self._listens = await self._agent.start()
        await asyncio.wait_for(self._agent.registered.wait(), grown(PATIENCE_SECONDS))

    async def down(self, *, killing: bool = True) -> None:  # noqa: ARG002 (as others are lost)
        """The agent is gone; what it carried runs on."""
        await self._agent.stop()

    async def go_unheard(self) -> None:
        """It ends what it carries, and is gone before it says so."""
        await self._agent.instances.drain(0)
        await self._agent.stop()

    async def close(self) -> None:
        await self._agent.stop()
        await self._channel.close()

    async def runs(self) -> int:
        seen = await self.runtime.list()
        return sum(each.condition is Condition.RUNNING for each in seen)


@asynccontextmanager
async def nodes(
    place: Harbour, folder: Path, has: Amounts = SMALL, **pools: str
) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        found = []
        for id, pool in pools.items():
            node = Node(id, place, folder, pool, has)
            await node.up()
            stack.push_async_callback(node.close)
            await place.takes_work(node.id)
            found.append(node)
        yield found


class Viewer:
    """Someone at the window."""

    def __init__(self, place: Harbour) -> None:
        self._public = PublicAPIStub(place.channel)

    async def pods(self, instance: str) -> dict[str, str]:
        """The state of each of its pods, by the node it is on."""
        notes = [rkt.KeyValue(Key="windlass/instance", value=instance)]
        asked = rkt.ListPodsRequest(filters=[rkt.PodFilter(annotations=notes)])
        reply = await self._public.ListPods(asked, timeout=20)
        return {
            {note.Key: note.value for note in pod.annotations}["windlass/node"]: (
                rkt.PodState.Name(pod.state)
            )
            for pod in reply.pods
            if pod.annotations
        }

    async def first_line(self, instance: str) -> str:
        notes = [rkt.KeyValue(Key="windlass/instance", value=instance)]
        asked = rkt.ListPodsRequest(filters=[rkt.PodFilter(annotations=notes)])
        (pod,) = (await self._public.ListPods(asked, timeout=20)).pods
        followed = rkt.GetLogsRequest(pod_id=pod.id, follow=True)
        async for message in self._public.GetLogs(followed, timeout=20):
            for line in message.lines:
                return str(line.partition(" ")[2])
        raise AssertionError("it said nothing")


async def typed(place: Harbour, *words: str) -> Outcome:
    """What the command says to whoever types this."""
    return await asyncio.to_thread(in_process, "--address", place.address, *words)


async def test_k23_k24_instances_on_our_agents_are_seen_replaced_and_never_two(
    opened: Opening, tmp_path: Path
) -> None:
    async with opened(restart="always") as place, nodes(place, tmp_path, a="", b="edge") as (a, b):
        window = Viewer(place)
        listener = place.create(asked("hello", uri="builtin:ticker"))
        await listener.until(*RUNS)

        async def is_seen() -> bool:
            return await window.pods("hello") == {"a": "POD_STATE_RUNNING"}

        await until(is_seen)
        assert await window.first_line("hello") == "tick 1 "

        pooled = Listener(place.stub.Create(asked("pooled"), metadata=(("windlass-pool", "edge"),)))
        await pooled.until(*RUNS)
        assert (await a.runs(), await b.runs()) == (1, 1)
        assert (await typed(place, "instance", "logs", "hello")).out == "tick 1 \n"
        ran = await typed(place, "instance", "exec", "hello", "--", "echo", "a  b")
        assert (ran.code, ran.out) == (0, "a  b\n")
        failed = await typed(place, "instance", "exec", "hello", "--", "sh", "-c", "exit 5")
        assert failed.code == 5
        assert "no node has told" in (await typed(place, "instance", "logs", "none")).err

        await place.lose(a)  # type: ignore[arg-type]
        await listener.until(*RUNS, *RUNS)
        assert (await a.runs(), await b.runs()) == (1, 2), "the old copy runs on, unseen"
        await a.up()

        async def is_alone() -> bool:
            return await a.runs() == 0

        await until(is_alone)
        assert await b.runs() == 2
        for id, heard in (("hello", listener), ("pooled", pooled)):
            await place.ask(Call.DESTROY, id)
            assert (await heard.end())[-2:] == ["DESTROYING", "TERMINATED"]
        assert await b.runs() == 0

        async def is_garbage() -> bool:
            return set((await window.pods("hello")).values()) == {"POD_STATE_GARBAGE"}

        await until(is_garbage)


async def test_what_an_agent_stopped_without_saying_so_runs_again_once_it_is_back(
    opened: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was restarted while its control plane was away, too."""
    monkeypatch.setattr(placing, "RETRIES", timedelta(seconds=0.2))
    async with opened() as place, nodes(place, tmp_path, a="") as (a,):
        listener = place.create(asked())
        await listener.until(*RUNS)
        await a.go_unheard()
        assert await a.runs() == 0
        await a.up()
        await listener.until(*RUNS, "STOPPING", "STOPPING", "RUNNING")
        assert await a.runs() == 1
