"""One node that is not Ready, brought back with the machine it has."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from activities.errors import pushed_aside, understood
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from domain.errors import Failure
from domain.frozen import Frozen
from domain.machine import Machine
from domain.ports import Node, Returning
from workflows.policies import BRIEF, COURTESY, IN_PASSING, POWER, RETURNING
from workflows.steps import do
from workflows.unwind import Unwind


class Revival(Frozen):
    """A node that is not Ready, and how long it may take to come back."""

    machine: Machine
    node: Node
    ready_seconds: float
    alone: bool = False
    """Whether there is no other control plane to ask about it: then one look without an answer
    means that it is not Ready."""


class Revived(Frozen):
    """What came of it."""

    trouble: Failure | None = None
    """Why the node is still not Ready. None: it is."""
    by_itself: bool = False
    """It was Ready when we came to look, and nothing was done."""


@workflow.defn
class ReviveNode:
    """Makes sure that the node is not Ready, powers its machine off and on, and waits until the
    node is back. However it ends, the machine is left switched on."""

    @workflow.run
    async def run(self, revival: Revival) -> Revived:
        if await self._is_ready(revival.node, alone=revival.alone):
            return Revived(by_itself=True)
        try:
            async with Unwind() as unwind:
                unwind.add(Machines.power_on, revival.machine, COURTESY)
                await do(Machines.power_off, revival.machine, POWER)
                await do(Machines.power_on, revival.machine, POWER)
                until = workflow.now() + timedelta(seconds=revival.ready_seconds)
                returning = Returning(node=revival.node, until=until)
                await do(Kubernetes.wait_return, returning, RETURNING)
        except FailureError as error:
            if pushed_aside(error):
                raise
            return Revived(trouble=understood(error))
        return Revived()

    async def _is_ready(self, node: Node, *, alone: bool) -> bool:
        """An API that does not answer says nothing about the node, and it is left alone; unless
        the API is its own."""
        try:
            await do(Kubernetes.check_node, node, IN_PASSING if alone else BRIEF)
        except FailureError as error:
            if pushed_aside(error):
                raise
            why = understood(error)
            if why.reason != "NODE_NOT_READY" and not alone:
                message = f"it is not known how {node.named} is: {why.message}"
                raise ApplicationError(message, type="Failed", non_retryable=True) from error
            return False
        return True
