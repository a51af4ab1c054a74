"""A node is emptied for as long as its pods are given, from when they are first asked."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from temporalio.worker import Worker

from activities.kubernetes import Kubernetes
from activities.waiting import began
from domain.errors import Overdue, Unavailable
from domain.machine import Role, Slot
from domain.ports import Draining, Node
from domain.releases import Release
from sim.memory import MemoryApi
from sim.world import MemoryWorld
from tests.support.load import limit
from workflows import runner
from workflows.policies import DRAINING

LONG = timedelta(minutes=2)


@pytest.fixture
def world() -> MemoryWorld:
    """A node with a pod that will not leave it."""
    world = MemoryWorld.of(1)
    world.nodes["uid"] = {"w-1"}
    world.pods["w-1"] = ["default/web-1"]
    return world


def of(seconds: float) -> Draining:
    slot = Slot(
        cluster_uid="uid",
        cluster="hello",
        name="w-1",
        role=Role.WORKER,
        pool="w",
        release=Release(version="1.32.1", series="jammy"),
        public_key="",
    )
    node = Node(slot=slot, endpoint="hello.test", addresses=("10.0.0.1",))
    return Draining(node=node, seconds=seconds)


def attempt(*, scheduled: datetime, begun: datetime | None = None) -> ActivityEnvironment:
    """An attempt that begins now, at a step that was `begun` by one before it."""
    hands = ActivityEnvironment()
    hands.info = replace(
        ActivityEnvironment.default_info(),
        scheduled_time=scheduled,
        started_time=datetime.now(UTC),
        heartbeat_details=[] if begun is None else [str(begun)],
    )
    return hands


async def test_the_time_to_clear_a_node_runs_from_the_first_attempt_on(world: MemoryWorld) -> None:
    before = datetime.now(UTC) - LONG
    again = attempt(scheduled=before, begun=before)
    async with limit(20):
        await again.run(Kubernetes(MemoryApi(world)).clear, of(60))
    assert "w-1" in world.cordoned


async def test_time_in_which_nobody_served_the_queue_is_not_the_pods(world: MemoryWorld) -> None:
    now = datetime.now(UTC)
    late = attempt(scheduled=now - LONG)
    with pytest.raises(Overdue, match="default/web-1") as overdue:
        await late.run(Kubernetes(MemoryApi(world)).drain, of(1))
    assert overdue.value.reason == "DRAIN_OVERDUE"
    assert datetime.now(UTC) - now >= timedelta(seconds=1)
    assert len(world.evicted) > 1


async def test_pods_that_had_their_time_are_not_given_it_anew(world: MemoryWorld) -> None:
    before = datetime.now(UTC) - LONG
    with pytest.raises(Overdue, match="default/web-1"):
        await attempt(scheduled=before, begun=before).run(
            Kubernetes(MemoryApi(world)).drain, of(60)
        )
    assert len(world.evicted) == 1


class Shy(MemoryApi):
    """Gives no answer at first, and remembers since when it has been asked."""

    def __init__(self, world: MemoryWorld) -> None:
        super().__init__(world)
        self.begun: list[datetime] = []

    async def evict(self, node: Node) -> tuple[str, ...]:
        self.begun.append(began())
        if len(self.begun) < 3:
            raise Unavailable(f"{node.endpoint} is away")
        return ()


@workflow.defn
class Emptying:
    @workflow.run
    async def run(self, draining: Draining) -> None:
        await workflow.execute_activity_method(Kubernetes.drain, draining, **DRAINING)


async def test_every_attempt_knows_when_the_first_began(
    temporal: WorkflowEnvironment, queues: str, world: MemoryWorld
) -> None:
    api = Shy(world)
    async with Worker(
        temporal.client,
        task_queue=queues,
        workflows=[Emptying],
        activities=[Kubernetes(api).drain],
        workflow_runner=runner(),
    ):
        await temporal.client.execute_workflow(
            Emptying.run, of(600), id=f"emptying-{uuid4()}", task_queue=queues
        )
    assert len(api.begun) == 3
    assert len(set(api.begun)) == 1
