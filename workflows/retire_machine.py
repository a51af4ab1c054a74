"""One node taken out of a living cluster, and its machine given back."""

from temporalio import workflow
from temporalio.exceptions import FailureError

from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from domain.cluster import DrainPolicy, Retiring
from domain.frozen import Frozen
from domain.ports import Node
from workflows.emptying import emptied
from workflows.growth import courteously
from workflows.policies import BRIEF, COURTESY, LEAVING
from workflows.steps import do
from workflows.unwind import Unwind


class Retirement(Frozen):
    """A node that is to go, and how long its pods are waited for."""

    retiring: Retiring
    node: Node
    drain_seconds: float
    drain_policy: DrainPolicy = DrainPolicy.PROCEED


class Retired(Frozen):
    """What came of it."""

    trouble: str = ""
    """Why the node is still there, or its machine not given back."""
    warnings: tuple[str, ...] = ()
    """What did not go as it should: pods that went with their node, a node left in the API."""


@workflow.defn
class RetireMachine:
    """Lets no more pods onto the node, empties it, takes it out of the cluster and gives its
    machine back.

    Until the node is taken out all of it can be undone: whoever is told to stop before, or cannot
    go on, lets pods onto it again. From then on there is no way back, and it is seen through."""

    def __init__(self) -> None:
        self._warnings: list[str] = []

    @workflow.run
    async def run(self, retirement: Retirement) -> Retired:
        trouble = ""
        try:
            async with Unwind() as unwind:
                if retirement.retiring.works:
                    await self._empty(retirement, unwind)
                await self._take_out(retirement, unwind)
        except FailureError as error:
            if pushed_aside(error):
                raise
            trouble = understood(error).message
        return Retired(trouble=trouble, warnings=tuple(self._warnings))

    async def _empty(self, retirement: Retirement, unwind: Unwind) -> None:
        """Pods that have not left in time go with their node, unless the policy is strict; which,
        and why, is told."""
        seconds, policy = retirement.drain_seconds, retirement.drain_policy
        if left := await emptied(retirement.node, seconds, policy, unwind):
            self._warnings.append(left)
        unwind.forget(retirement.node)

    async def _take_out(self, retirement: Retirement, unwind: Unwind) -> None:
        """The machine is given back whatever the API says of its node; that is told."""
        node, machine = retirement.node, retirement.retiring.machine
        unwind.add(Machines.release, machine.slot, LEAVING)
        if retirement.retiring.works:
            unwind.add(Kubeadm.reset, machine, COURTESY)
        unwind.add(Kubernetes.delete_node, node, COURTESY)
        try:
            await do(Kubernetes.delete_node, node, BRIEF)
        except FailureError as error:
            if pushed_aside(error):
                raise
            why = understood(error).message
            self._warnings.append(f"node {node.named} may still be in the API: {why}")
        if retirement.retiring.works:
            await courteously(do(Kubeadm.reset, machine, COURTESY))
        try:
            await do(Machines.release, machine.slot, LEAVING)
        except FailureError:
            unwind.keep(machine)  # refused so often, it would be so by the undo
            raise
