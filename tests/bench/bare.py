"""What somebody would write who knows Temporal and nothing of us: the same hands in the same order,
as many at once, and neither rows nor undos."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow

from activities.endpoints import Endpoints
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from domain.cluster import ClusterPlan
from domain.machine import Machine, Search, Slot
from domain.ports import Endpoint, Joining, Node

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


async def _do(step: Callable[[Any, Subject], Awaitable[Answer]], subject: Subject) -> Answer:
    return await workflow.execute_activity_method(
        step, subject, start_to_close_timeout=timedelta(minutes=45)
    )


@workflow.defn
class BareCreateCluster:
    """For one control plane and any number of workers."""

    def __init__(self) -> None:
        self._first: asyncio.Future[Machine] = asyncio.Future()

    @workflow.run
    async def run(self, plan: ClusterPlan) -> None:
        [first] = plan.control_plane
        await self._point(plan)
        workers = (self._worker(plan, slot) for slot in plan.workers)
        await asyncio.gather(self._control_plane(plan, first), *workers)

    async def _control_plane(self, plan: ClusterPlan, slot: Slot) -> None:
        machine = await self._provision(slot)
        await self._point(plan, machine.address)
        joining = Joining(machine=machine, through=machine, endpoint=plan.endpoint)
        await _do(Kubeadm.initialise, joining)
        node = Node(slot=slot, endpoint=plan.endpoint, addresses=(machine.address,))
        await _do(Kubernetes.wait_api, node)
        await _do(Kubernetes.install_network, node)
        await self._settle(node)
        self._first.set_result(machine)

    async def _worker(self, plan: ClusterPlan, slot: Slot) -> None:
        machine = await self._provision(slot)
        first = await self._first
        await _do(Kubeadm.join, Joining(machine=machine, through=first, endpoint=plan.endpoint))
        await self._settle(Node(slot=slot, endpoint=plan.endpoint, addresses=(first.address,)))

    async def _provision(self, slot: Slot) -> Machine:
        machine = await _do(Machines.allocate, Search(slot=slot))
        machine = await _do(Machines.deploy, machine)
        machine = await _do(Machines.wait_deployed, machine)
        await _do(Kubeadm.reach, machine)
        await _do(Kubeadm.preflight, machine)
        return machine

    async def _settle(self, node: Node) -> None:
        await _do(Kubernetes.wait_node, node)
        await _do(Kubernetes.label, node)

    async def _point(self, plan: ClusterPlan, *addresses: str) -> None:
        endpoint = Endpoint(cluster_uid=plan.uid, name=plan.endpoint, addresses=addresses)
        await _do(Endpoints.ensure, endpoint)
