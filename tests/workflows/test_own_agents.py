"""The scheduler and our own agents, each as it is: nothing between them is played."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from temporalio.testing import WorkflowEnvironment

from agent.instances import Terms
from agent.simulated import Simulated
from agent.whole import Agent, Plan
from domain.instance import Call
from domain.placement import Amounts
from protos.gen.kudo import scheduler_pb2 as pb
from store.engine import Database
from tests.store.desk import until
from tests.workflows.harbour import Harbour, asked, harbour, worker
from tests.workflows.test_instances import LIFE, RUNS


@asynccontextmanager
async def node(place: Harbour, name: str, folder: Path) -> AsyncIterator[Agent]:
    """A node of ours, whose pods are simulated."""
    channel = grpc.aio.insecure_channel(place.address)
    home = folder / name
    home.mkdir(exist_ok=True)
    plan = Plan(
        node=name,
        folder=home / "state",
        has=Amounts(cpu=1000, memory=1000, disk=100),
        grace_seconds=1,
        terms=Terms(linger=60),
    )
    agent = Agent(plan, Simulated(folder=home), channel)
    await agent.start()
    try:
        await agent.registered.wait()
        await place.takes_work(name)
        yield agent
    finally:
        await agent.stop()
        await channel.close()


@pytest.fixture
async def place(
    temporal: WorkflowEnvironment,
    database: Database,
    database_url: str,
    queues: str,
    tmp_path: Path,
) -> AsyncIterator[Harbour]:
    async with (
        harbour(temporal.client, database, database_url, queues, tmp_path) as place,
        worker(temporal.client, database, queues, tmp_path),
    ):
        yield place


async def test_k06_k07_k13_k19_a_life_on_an_agent_of_our_own(
    place: Harbour, tmp_path: Path
) -> None:
    async with node(place, "n1", tmp_path) as agent:
        ports = [pb.Port(source=18080, destination=80)]
        listener = place.create(asked(environnement=["A=b=c"], ports=ports, uri="builtin:idle"))
        await listener.until(*RUNS)
        samples = [status for status in listener.heard if status.HasField("resource")]
        assert samples[0].resource.limit.cpu == 10
        assert {status.id for status in listener.heard} == {"web-1"}
        await place.ask(Call.STOP)
        await listener.until(*LIFE[:6])
        await place.ask(Call.START)
        await listener.until(*LIFE[:8])
        await place.ask(Call.DESTROY)
        assert await listener.end() == LIFE
        await until(lambda: not agent.instances.held())


async def test_k08_who_ends_by_itself_is_told_with_its_code(place: Harbour, tmp_path: Path) -> None:
    async with node(place, "n1", tmp_path) as agent:
        well = place.create(asked("well", uri="builtin:exit"))
        badly = place.create(asked("badly", uri="builtin:exit", environnement=["CODE=3"]))
        assert (await well.end())[-1] == "TERMINATED"
        assert (await badly.end())[-1] == "FAILED"
        assert "exit 3" in badly.heard[-1].statusDescription
        await until(lambda: not agent.instances.held())  # its log stays, and its copy does not
