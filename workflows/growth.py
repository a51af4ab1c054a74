"""Nodes in the making: machines found for slots and turned into what the slots are for.

Shared by all that make a cluster or let it grow. It remembers which machines let it down, so that
no slot asks for them again, and which nodes could not be had."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from activities.endpoints import Endpoints
from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from activities.quarantine import Quarantine
from domain.cluster import ClusterPlan
from domain.errors import Failure
from domain.machine import Machine, Role, Slot
from domain.operation import OperationId
from domain.ports import Draining, Endpoint, Joining, Node
from domain.quarantine import MachineFailure, is_to_blame
from workflows.books import book
from workflows.limits import within
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
from workflows.steps import child, do, undo
from workflows.together import told_to_stop
from workflows.unwind import Unwind

MACHINES_PER_SLOT = 3
"""How many machines a slot may go through before it is given up."""

CLEARING_SECONDS = 60.0
"""How long pods may take to leave a node that is given back right after it was made."""

Becoming = Callable[[Machine, int], Awaitable[None]]
"""What makes a machine the node its slot is for, the `turn`th machine of that slot."""


class _Host(NamedTuple):
    """A machine that is to become a node, and in how many steps the unwind takes it back."""

    machine: Machine
    undos: int


class Growth:
    def __init__(self, operation: OperationId, unwind: Unwind, *, outlived: bool) -> None:
        """`outlived`: whether the cluster is still there when all of this has been undone, so that
        its nodes have to be taken out of it."""
        self.working: list[Machine] = []
        """The control planes that work, by which others join."""
        self.lost: list[str] = []
        """The nodes that could not be had, each with why."""
        self.left: list[str] = []
        """What could not be taken out of the cluster again."""
        self.etcd = asyncio.Lock()
        """It takes one new member at a time, and only when healthy; and lets one go at a time."""
        self._operation = operation
        self._unwind = unwind
        self._outlived = outlived
        self._let_down: list[str] = []
        self._hosts: dict[str, _Host] = {}
        """What was delivered for a slot and is not its node yet, nor given back."""
        self._pointed = 0

    async def shun(self) -> None:
        """Ask for none of the machines that failed too often, wherever that was."""
        self._let_down += await book(Quarantine.shunned, self._operation)

    async def fill(self, plan: ClusterPlan, slot: Slot, become: Becoming) -> Machine:
        """Find a machine for the slot that becomes its node; one that does not is given back, and
        no slot of this cluster asks for it again."""
        why = ""
        self._unwind.add(Machines.release, slot)
        for turn in range(1, MACHINES_PER_SLOT + 1):
            wanted = Provision(slot=slot, turn=turn, avoid=tuple(self._let_down))
            name = f"m-{slot.cluster_uid[:8]}-{slot.name}-{turn}-{self._operation}"
            delivery = await child(ProvisionMachine.run, wanted, id=name)
            machine, failure = delivery.machine, delivery.failure
            if failure is not None:
                await self._count(machine, turn, failure)
            else:
                undos = self._to_take_back(plan, machine, turn)
                self._hosts[slot.name] = _Host(machine, undos)
                try:
                    await become(machine, turn)
                except FailureError as error:
                    if pushed_aside(error):
                        raise
                    failure = understood(error)
                    await self._take_out(plan, slot, turn)
                    await undo(Machines.release, slot, STUBBORN, turn=turn + 1)
                else:
                    del self._hosts[slot.name]
                    return machine
            why = failure.message
            self.let_down_by(machine)
        raise ApplicationError(
            f"{slot.name}: {MACHINES_PER_SLOT} machines tried, the last: {why}",
            type="Failed",
            non_retryable=True,
        )

    async def join(self, plan: ClusterPlan, machine: Machine, turn: int) -> None:
        """Make the machine a node that takes work."""
        await do(Kubeadm.join, self.joining(plan, machine), PATIENT, turn=turn)
        await self.settle(self.node(plan, machine.slot, self.working), turn)

    def joining(self, plan: ClusterPlan, machine: Machine) -> Joining:
        """The machine, and the control planes by which it gets in or out."""
        if not self.working:
            message = f"no control plane of {plan.name} works that {machine.named} could go through"
            raise ApplicationError(message, type="Failed", non_retryable=True)
        first, *others = self.working
        return Joining(machine=machine, through=first, endpoint=plan.endpoint, others=tuple(others))

    async def join_control_plane(self, plan: ClusterPlan, machine: Machine, turn: int) -> None:
        """Make the machine a control plane that others join by and that the endpoint leads to."""
        async with self.etcd:
            await self.join(plan, machine, turn)
            await self.point(plan, [*self.working, machine])
            self.working.append(machine)

    def let_down_by(self, machine: Machine) -> None:
        """Have no slot of this cluster ask for the machine again in this operation."""
        self._let_down.append(machine.system_id)

    async def _count(self, machine: Machine, turn: int, failure: Failure) -> None:
        """Count it against a machine that it did not deploy, if it is to blame. What goes wrong
        once it is to become a node may as well be its cluster's fault, and one cluster's broken
        network must not keep every good machine from all others."""
        if is_to_blame(failure):
            counted = MachineFailure(
                operation=self._operation, machine=machine, turn=turn, why=failure.message
            )
            await book(Quarantine.count, counted)

    async def settle(self, node: Node, turn: int) -> None:
        await do(Kubernetes.wait_node, node, WATCHING, turn=turn)
        await do(Kubernetes.label, node, BRIEF, turn=turn)

    async def or_without(
        self, plan: ClusterPlan, slot: Slot, work: Coroutine[Any, Any, None]
    ) -> None:
        """Go on without this node if it cannot be had, and keep nothing of it: the cluster works,
        short of what was wanted."""
        try:
            await within(OPERATION_DEADLINE, work)
        except FailureError as error:
            if pushed_aside(error):
                raise
            kept = "" if await self.let_go(plan, slot) else "; its machine is not given back yet"
            self.lost.append(f"{slot.name} ({understood(error).message}{kept})")

    async def point(self, plan: ClusterPlan, machines: list[Machine]) -> None:
        """Lead the endpoint to these machines. Its name was fixed when the cluster was planned."""
        self._pointed += 1
        await do(Endpoints.ensure, self.led_to(plan, machines), BRIEF, turn=self._pointed)

    def led_to(self, plan: ClusterPlan, machines: list[Machine]) -> Endpoint:
        addresses = tuple(machine.address for machine in machines)
        return Endpoint(cluster_uid=plan.uid, name=plan.endpoint, addresses=addresses)

    def node(self, plan: ClusterPlan, slot: Slot, through: list[Machine]) -> Node:
        addresses = tuple(machine.address for machine in through)
        return Node(
            slot=slot, endpoint=plan.endpoint, addresses=addresses, workless=not plan.workers
        )

    def _to_take_back(self, plan: ClusterPlan, machine: Machine, turn: int) -> int:
        """Remember how to make a node a mere host again; says in how many steps. The first is that
        etcd lets a control plane go: one that it still counts stays a node, since without its
        machine it would count for the quorum and never answer."""
        self._unwind.add(Kubeadm.reset, machine, COURTESY, turn=turn)
        if not self._outlived:
            return 1
        node = self.node(plan, machine.slot, self.working)
        self._unwind.add(Kubernetes.delete_node, node, COURTESY, turn=turn)
        draining = Draining(node=node, seconds=CLEARING_SECONDS)
        self._unwind.add(Kubernetes.clear, draining, COURTESY, turn=turn)
        if machine.slot.role is not Role.CONTROL_PLANE:
            return 3
        leaving = self.joining(plan, machine)

        async def leave_or_be_a_node() -> None:
            try:
                await undo(Kubeadm.leave, leaving, BRIEF, turn=turn)
            except FailureError:
                await courteously(undo(Kubernetes.label, node, COURTESY, turn=turn))
                raise

        self._unwind.add_all(machine, leave_or_be_a_node, decides=True)
        return 4

    async def _take_out(self, plan: ClusterPlan, slot: Slot, turn: int) -> None:
        """Take a machine that did not become the slot's node out of the cluster, as far as it got
        in, and forget how: soon it is somebody else's host. Its release is the caller's; the first
        of a slot is the unwind's, since no two steps of an operation share a key."""
        machine, undos = self._hosts[slot.name]
        if self.working:
            if slot.role is Role.CONTROL_PLANE:
                await courteously(self.point(plan, self.working))
                await self._leave(plan, machine, turn)
            node = self.node(plan, slot, self.working)
            await courteously(undo(Kubernetes.delete_node, node, COURTESY, turn=turn))
        await courteously(undo(Kubeadm.reset, machine, COURTESY, turn=turn))
        self._unwind.forget(slot, steps=undos)
        del self._hosts[slot.name]

    async def _leave(self, plan: ClusterPlan, machine: Machine, turn: int) -> None:
        """Take a machine's member out of etcd. Nothing that follows makes up for it: a member that
        stays counts for the quorum and never answers, so the cluster must say so."""
        leaving = self.joining(plan, machine)
        try:
            async with self.etcd:
                await undo(Kubeadm.leave, leaving, BRIEF, turn=turn)
        except FailureError as error:
            if pushed_aside(error):
                raise
            if told_to_stop():  # whoever undoes takes it from here
                raise asyncio.CancelledError from error
            why = understood(error).message
            self.left.append(f"the etcd member of {machine.named} is still there ({why})")

    async def let_go(self, plan: ClusterPlan, slot: Slot) -> bool:
        """Make sure that the slot holds no machine, that no node bears its name, and that etcd does
        not count what was to become one when time ran out. What MAAS will not take back is left to
        the delete in the end: the cluster works, and nobody may wait for it for ever."""
        last = MACHINES_PER_SLOT + 2
        if slot.name in self._hosts:
            await self._take_out(plan, slot, last)
        elif self._outlived:
            node = self.node(plan, slot, self.working)
            await courteously(undo(Kubernetes.delete_node, node, COURTESY, turn=last))
        try:
            await within(GIVING_BACK, undo(Machines.release, slot, STUBBORN, turn=last))
        except FailureError as error:
            if pushed_aside(error):
                raise
            return False
        return True


async def courteously(step: Awaitable[None]) -> None:
    """Take a step that may fail: what follows makes up for it."""
    try:
        await step
    except FailureError as error:
        workflow.logger.info("left to the release that follows: %s", understood(error).message)
