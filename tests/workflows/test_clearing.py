"""A node that goes in any case is cleared for as long as its pods are given, and no longer."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from temporalio.testing import ActivityEnvironment

from activities.kubernetes import Kubernetes
from domain.machine import Role, Slot
from domain.ports import Draining, Node
from domain.releases import Release
from sim.memory import MemoryApi
from sim.world import MemoryWorld


async def test_the_time_to_clear_a_node_runs_from_the_first_attempt_on() -> None:
    world = MemoryWorld.of(1)
    slot = Slot(
        cluster_uid="uid",
        cluster="hello",
        name="w-1",
        role=Role.WORKER,
        pool="w",
        release=Release(version="1.32.1", series="jammy"),
        public_key="",
    )
    world.nodes["uid"] = {"w-1"}
    world.pods["w-1"] = ["default/web-1"]
    node = Node(slot=slot, endpoint="hello.test", addresses=("10.0.0.1",))
    again = ActivityEnvironment()
    began = datetime.now(UTC) - timedelta(minutes=2)
    again.info = replace(ActivityEnvironment.default_info(), scheduled_time=began)
    async with asyncio.timeout(20):
        await again.run(Kubernetes(MemoryApi(world)).clear, Draining(node=node, seconds=60))
    assert "w-1" in world.cordoned
