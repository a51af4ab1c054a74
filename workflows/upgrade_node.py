"""One node brought from one release to the next, without leaving its cluster."""

from contextlib import suppress

from temporalio import workflow
from temporalio.exceptions import FailureError

from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from domain.cluster import DrainPolicy
from domain.frozen import Frozen
from domain.machine import Role
from domain.ports import Node, Upgrading
from workflows.emptying import emptied
from workflows.policies import (
    BRIEF,
    COURTESY,
    PATIENT,
    SEEING_THROUGH,
    WATCHING,
)
from workflows.steps import do, undo
from workflows.unwind import Unwind

TRIES = 2
"""How often kubeadm may try to upgrade a node."""


class Renewal(Frozen):
    """A node that is to be upgraded, and how long its pods are waited for."""

    upgrading: Upgrading
    node: Node
    """The same node with the release that it is to run, and where the API is asked about it."""
    drain_seconds: float
    drain_policy: DrainPolicy = DrainPolicy.PROCEED


class Renewed(Frozen):
    """What came of it."""

    trouble: str = ""
    """Why the node does not run the release, or cannot be said to."""
    warning: str = ""
    """Which pods did not leave the node in time, and what held them."""


@workflow.defn
class UpgradeNode:
    """kubeadm upgrades what the node runs for the cluster; then the node is emptied, its kubelet
    renewed and waited for, and the node is opened again.

    kubeadm gets a second try, since it restores what it changed when it fails. Until the kubelet is
    touched a node in hand is opened again as it was; from then on it is seen through, and however
    that ends, the rows say which kubelet it runs and it is not left closed."""

    @workflow.run
    async def run(self, renewal: Renewal) -> Renewed:
        trouble, warning = "", ""
        try:
            async with Unwind() as unwind:
                await self._upgrade(renewal.upgrading, unwind)
                seconds, policy = renewal.drain_seconds, renewal.drain_policy
                warning = await emptied(renewal.node, seconds, policy, unwind)
                await self._renew(renewal, unwind)
        except FailureError as error:
            if pushed_aside(error):
                raise
            trouble = understood(error).message
        return Renewed(trouble=trouble, warning=warning)

    async def _upgrade(self, upgrading: Upgrading, unwind: Unwind) -> None:
        """A run that was begun goes on without us, so it is waited for if we are told to stop; one
        that was not is not begun then."""
        unwind.add(Kubeadm.see_through, upgrading, SEEING_THROUGH)
        for turn in range(1, TRIES + 1):
            try:
                await do(Kubeadm.upgrade, upgrading, PATIENT, turn=turn)
                break
            except FailureError as error:
                if pushed_aside(error):
                    raise
                if turn == TRIES:
                    unwind.forget(upgrading)
                    raise
        unwind.forget(upgrading)

    async def _renew(self, renewal: Renewal, unwind: Unwind) -> None:
        """What failed for good is left at that on the way out. If we are told to stop, what was
        begun is waited for."""
        upgrading, node = renewal.upgrading, renewal.node
        unwind.add(Kubernetes.wait_node, node, COURTESY)  # which kubelet it runs, whatever it is

        async def see_through() -> None:
            renewed = True  # a host that cannot be asked may have done so
            with suppress(FailureError):
                renewed = await undo(Kubeadm.see_through, upgrading, SEEING_THROUGH)
            if renewed:
                await undo(Kubernetes.wait_version, node, COURTESY)

        unwind.add_all(node, see_through)
        try:
            await do(Kubeadm.renew_kubelet, upgrading, PATIENT)
            if node.slot.role is Role.CONTROL_PLANE:
                own = node.model_copy(update={"addresses": (upgrading.machine.address,)})
                await do(Kubernetes.wait_api_version, own, WATCHING)
            await do(Kubernetes.wait_version, node, WATCHING)
        except FailureError:
            unwind.forget(node)
            raise
        await do(Kubernetes.uncordon, node, BRIEF)
