"""What somebody would write who knows Temporal and nothing of us: the same hands in the same order,
as many at once, and neither undos nor children nor operations."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.workflow import ActivityConfig

from activities.endpoints import Endpoints
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from activities.verbs import name_of, queue_of
from domain.cluster import ClusterPlan
from domain.machine import Machine, Search, Slot
from domain.operation import StepKey
from domain.ports import Endpoint, Joining, Node
from workflows.steps import Named

Subject = TypeVar("Subject", bound=Named)
Answer = TypeVar("Answer")


@workflow.defn
class BareCreateCluster:
    """For one control plane and any number of workers. `lent`: our own workers are its hands, and
    write their lines as ever; otherwise they are its own worker's, which has no logbook."""

    def __init__(self) -> None:
        self._lent = False
        self._first: asyncio.Future[Machine] = asyncio.Future()

    @workflow.run
    async def run(self, plan: ClusterPlan, lent: bool) -> None:
        self._lent = lent
        [first] = plan.control_plane
        await self._point(plan)
        workers = (self._worker(plan, slot) for slot in plan.workers)
        await asyncio.gather(self._control_plane(plan, first), *workers)

    async def _control_plane(self, plan: ClusterPlan, slot: Slot) -> None:
        machine = await self._provision(slot)
        await self._point(plan, machine.address, turn=2)
        joining = Joining(machine=machine, through=machine, endpoint=plan.endpoint)
        await self._do(Kubeadm.initialise, joining)
        node = Node(slot=slot, endpoint=plan.endpoint, addresses=(machine.address,))
        await self._do(Kubernetes.wait_api, node)
        await self._do(Kubernetes.install_network, node)
        await self._settle(node)
        self._first.set_result(machine)

    async def _worker(self, plan: ClusterPlan, slot: Slot) -> None:
        machine = await self._provision(slot)
        first = await self._first
        await self._do(
            Kubeadm.join, Joining(machine=machine, through=first, endpoint=plan.endpoint)
        )
        await self._settle(Node(slot=slot, endpoint=plan.endpoint, addresses=(first.address,)))

    async def _provision(self, slot: Slot) -> Machine:
        machine = await self._do(Machines.allocate, Search(slot=slot))
        machine = await self._do(Machines.deploy, machine)
        machine = await self._do(Machines.wait_deployed, machine)
        await self._do(Kubeadm.reach, machine)
        await self._do(Kubeadm.preflight, machine)
        return machine

    async def _settle(self, node: Node) -> None:
        await self._do(Kubernetes.wait_node, node)
        await self._do(Kubernetes.label, node)

    async def _point(self, plan: ClusterPlan, *addresses: str, turn: int = 1) -> None:
        endpoint = Endpoint(cluster_uid=plan.uid, name=plan.endpoint, addresses=addresses)
        await self._do(Endpoints.ensure, endpoint, turn)

    async def _do(
        self, step: Callable[[Any, Subject], Awaitable[Answer]], subject: Subject, turn: int = 1
    ) -> Answer:
        how: ActivityConfig = {"start_to_close_timeout": timedelta(minutes=45)}
        if self._lent:
            key = StepKey(verb=name_of(step), subject=subject.named, turn=turn)
            how |= {"task_queue": queue_of(step), "activity_id": str(key)}
        return await workflow.execute_activity_method(step, subject, **how)
