"""A Kubernetes cluster, from nothing to an API that answers and nodes that are Ready."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from activities.endpoints import Endpoints
from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from activities.progress import Progress
from domain.cluster import ClusterPlan, Phase
from domain.machine import Machine, Role, Slot
from domain.operation import Brief, OperationId, Reached
from domain.ports import Endpoint, Joining, Node
from workflows.carrying_out import carry_out
from workflows.policies import (
    BRIEF,
    COURTESY,
    GIVING_BACK,
    OPERATION_DEADLINE,
    PATIENT,
    STUBBORN,
    WATCHING,
)
from workflows.provision_machine import Provision, ProvisionMachine
from workflows.steps import book, child, do, undo
from workflows.together import together, within
from workflows.unwind import Unwind

MACHINES_PER_SLOT = 3
"""How many machines a slot may go through before it is given up."""

Becoming = Callable[[Machine, int], Awaitable[None]]
"""What makes a machine the node its slot is for, the `turn`th machine of that slot."""


@workflow.defn
class CreateCluster:
    """Metal for every slot, many at once; then the first control-plane node, and once its API
    answers the other control planes one by one and the workers side by side.

    Without the first control-plane node there is no cluster: everything is undone, and the cluster
    is in ERROR. Once that node works, what fails elsewhere, or is not there in time, is given back
    and the cluster is DEGRADED. A cancel undoes everything, however far it was."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._unwind = Unwind()
        self._answers = asyncio.Event()
        self._etcd = asyncio.Lock()
        self._working: list[Machine] = []
        self._let_down: list[str] = []
        self._lost: list[str] = []
        self._left: list[str] = []
        self._pointed = 0

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._create, failed=Phase.ERROR)

    async def _create(self, plan: ClusterPlan, _brief: Brief) -> Reached:
        async with self._unwind:
            await self._build(plan)
        wanted = len(plan.slots)
        troubles = sorted(self._left)
        if self._lost:
            lost = "; ".join(sorted(self._lost))
            troubles.insert(0, f"{len(self._lost)} of {wanted} nodes missing: {lost}")
        if troubles:
            return Reached.well(self._operation, Phase.DEGRADED, "; ".join(troubles))
        return Reached.well(self._operation, Phase.RUNNING, f"{wanted} nodes Ready")

    async def _build(self, plan: ClusterPlan) -> None:
        first, *others = plan.control_plane
        room = asyncio.Semaphore(plan.workers_at_once)
        self._unwind.add(Endpoints.remove, Endpoint(cluster_uid=plan.uid, name=plan.endpoint))
        await self._point(plan, [])
        await together(
            within(OPERATION_DEADLINE, self._first(plan, first)),
            *(self._or_without(slot, self._control_plane(plan, slot)) for slot in others),
            *(self._or_without(slot, self._worker(plan, slot, room)) for slot in plan.workers),
        )

    async def _first(self, plan: ClusterPlan, slot: Slot) -> None:
        async def become(machine: Machine, turn: int) -> None:
            await self._point(plan, [machine])
            joining = Joining(machine=machine, through=machine, endpoint=plan.endpoint)
            await do(Kubeadm.initialise, joining, PATIENT, turn=turn)
            node = self._node(plan, slot, [machine])
            await do(Kubernetes.wait_api, node, WATCHING, turn=turn)
            await do(Kubernetes.install_network, node, BRIEF, turn=turn)
            await self._settle(node, turn)

        self._working.append(await self._fill(plan, slot, become))
        await book(Progress.record, Reached(operation=self._operation, published=True))
        self._answers.set()

    async def _control_plane(self, plan: ClusterPlan, slot: Slot) -> None:
        async def become(machine: Machine, turn: int) -> None:
            await self._answers.wait()
            async with self._etcd:  # it takes one new member at a time, and only when healthy
                await self._join(plan, machine, turn)
                await self._point(plan, [*self._working, machine])
                self._working.append(machine)

        await self._fill(plan, slot, become)

    async def _worker(self, plan: ClusterPlan, slot: Slot, room: asyncio.Semaphore) -> None:
        async def become(machine: Machine, turn: int) -> None:
            await self._answers.wait()
            await self._join(plan, machine, turn)

        async with room:
            await self._fill(plan, slot, become)

    async def _join(self, plan: ClusterPlan, machine: Machine, turn: int) -> None:
        joining = Joining(machine=machine, through=self._working[0], endpoint=plan.endpoint)
        await do(Kubeadm.join, joining, PATIENT, turn=turn)
        await self._settle(self._node(plan, machine.slot, self._working), turn)

    async def _settle(self, node: Node, turn: int) -> None:
        await do(Kubernetes.wait_node, node, WATCHING, turn=turn)
        await do(Kubernetes.label, node, BRIEF, turn=turn)

    async def _fill(self, plan: ClusterPlan, slot: Slot, become: Becoming) -> Machine:
        """Find a machine for the slot that becomes its node; one that does not is given back, and
        no slot of this cluster asks for it again."""
        why = ""
        self._unwind.add(Machines.release, slot)
        for turn in range(1, MACHINES_PER_SLOT + 1):
            wanted = Provision(slot=slot, turn=turn, avoid=tuple(self._let_down))
            name = f"m-{slot.cluster_uid[:8]}-{slot.name}-{turn}-{self._operation}"
            delivery = await child(ProvisionMachine.run, wanted, id=name)
            machine, why = delivery.machine, delivery.disappointment
            if not why:
                self._unwind.add(Kubeadm.reset, machine, COURTESY, turn=turn)
                try:
                    await become(machine, turn)
                except FailureError as error:
                    if pushed_aside(error):
                        raise
                    why = understood(error).message
                    await self._give_back(plan, machine, turn)
                    self._unwind.forget(machine)  # soon it is a host of somebody else's
                else:
                    return machine
            self._let_down.append(machine.system_id)
        raise ApplicationError(
            f"{slot.name}: {MACHINES_PER_SLOT} machines tried, the last: {why}",
            type="Failed",
            non_retryable=True,
        )

    async def _give_back(self, plan: ClusterPlan, machine: Machine, turn: int) -> None:
        """Take a machine that did not become a node out of the cluster, as far as it got in. The
        first release of a slot is the unwind's: no two steps of an operation share a key."""
        if self._working:
            if machine.slot.role is Role.CONTROL_PLANE:
                await self._courteously(self._point(plan, self._working))
                await self._leave(plan, machine, turn)
            node = self._node(plan, machine.slot, self._working)
            await self._courteously(undo(Kubernetes.delete_node, node, COURTESY, turn=turn))
        await self._courteously(undo(Kubeadm.reset, machine, COURTESY, turn=turn))
        await undo(Machines.release, machine.slot, STUBBORN, turn=turn + 1)

    async def _leave(self, plan: ClusterPlan, machine: Machine, turn: int) -> None:
        """Take a machine's member out of etcd. Nothing that follows makes up for it: a member that
        stays counts for the quorum and never answers, so the cluster must say so."""
        leaving = Joining(machine=machine, through=self._working[0], endpoint=plan.endpoint)
        try:
            async with self._etcd:
                await undo(Kubeadm.leave, leaving, BRIEF, turn=turn)
        except FailureError as error:
            if pushed_aside(error):
                raise
            why = understood(error).message
            self._left.append(f"the etcd member of {machine.named} is still there ({why})")

    async def _courteously(self, step: Awaitable[None]) -> None:
        try:
            await step
        except FailureError as error:
            workflow.logger.info("left to the release that follows: %s", understood(error).message)

    async def _or_without(self, slot: Slot, work: Coroutine[Any, Any, None]) -> None:
        """Go on without this node if it cannot be had, and keep nothing of it: the cluster works,
        short of what was wanted."""
        try:
            await within(OPERATION_DEADLINE, work)
        except FailureError as error:
            if pushed_aside(error):
                raise
            kept = "" if await self._let_go(slot) else "; its machine is not given back yet"
            self._lost.append(f"{slot.name} ({understood(error).message}{kept})")

    async def _let_go(self, slot: Slot) -> bool:
        """Make sure that the slot holds no machine. What MAAS will not take back is left to the
        delete in the end: the cluster works, and nobody may wait for it for ever."""
        try:
            last = MACHINES_PER_SLOT + 2
            await within(GIVING_BACK, undo(Machines.release, slot, STUBBORN, turn=last))
        except FailureError as error:
            if pushed_aside(error):
                raise
            return False
        return True

    async def _point(self, plan: ClusterPlan, machines: list[Machine]) -> None:
        """Lead the endpoint to these machines. Its name was fixed when the cluster was planned."""
        self._pointed += 1
        addresses = tuple(machine.address for machine in machines)
        endpoint = Endpoint(cluster_uid=plan.uid, name=plan.endpoint, addresses=addresses)
        await do(Endpoints.ensure, endpoint, BRIEF, turn=self._pointed)

    def _node(self, plan: ClusterPlan, slot: Slot, through: list[Machine]) -> Node:
        addresses = tuple(machine.address for machine in through)
        return Node(
            slot=slot, endpoint=plan.endpoint, addresses=addresses, workless=not plan.workers
        )
