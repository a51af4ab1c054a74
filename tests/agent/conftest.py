"""Agents to give orders to, and a control plane for them to belong to."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from agent.gate import secret
from agent.instances import Terms
from agent.process import Processes
from agent.runtime import Runtime
from agent.simulated import Simulated
from agent.whole import Agent, Plan
from domain.placement import Amounts
from tests.agent.containers import block, folder, podman_in, working
from tests.agent.control import Control, Scheduler

Begin = Callable[..., Awaitable[tuple[Agent, Scheduler]]]


@pytest.fixture
async def control() -> AsyncIterator[Control]:
    control = Control(f"{block(78)}.0/24")
    await control.start()
    yield control
    await control.stop()


@pytest.fixture
async def begin(control: Control, tmp_path: Path) -> AsyncIterator[Begin]:
    """Starts agents, all of them in the same place: a second one is the first after a restart."""
    begun: list[tuple[Agent, Scheduler, grpc.aio.Channel]] = []
    apart: list[Path] = []
    runtimes: dict[str, Runtime] = {
        "simulated": Simulated(folder=tmp_path),
        "process": Processes(tmp_path, commands=True),
    }

    async def start(
        kind: str = "simulated", *, linger: float = 60, **more: Any
    ) -> tuple[Agent, Scheduler]:
        if kind == "podman" and kind not in runtimes:
            apart.append(folder("agent"))
            runtimes[kind] = await working(podman_in(apart[0]))
        channel = grpc.aio.insecure_channel(control.address)
        plan = Plan(
            node="n1",
            folder=tmp_path / "state",
            pool="edge",
            labels=(("zone", "a"),),
            has=Amounts(cpu=2000, memory=1000, disk=10),
            grace_seconds=10,
            terms=Terms(linger=linger),
            **more,
        )
        agent = Agent(plan, runtimes[kind], channel)
        scheduler = Scheduler(await agent.start(), secret(agent.ledger))
        begun.append((agent, scheduler, channel))
        return agent, scheduler

    yield start
    for agent, scheduler, channel in begun:
        await scheduler.close()
        await agent.stop()
        await channel.close()
    for runtime in runtimes.values():
        await runtime.open("")
        for seen in await runtime.list():
            await runtime.remove(seen.pod)
        await runtime.close()
    for place in apart:
        shutil.rmtree(place, ignore_errors=True)
