"""A node emptied of its pods, so that it can be taken out or renewed."""

from temporalio.exceptions import FailureError

from activities.errors import understood
from activities.kubernetes import Kubernetes
from domain.cluster import DrainPolicy
from domain.ports import Draining, Node
from workflows.policies import BRIEF, DRAINING
from workflows.steps import do
from workflows.unwind import Unwind


async def emptied(node: Node, seconds: float, policy: DrainPolicy, unwind: Unwind) -> str:
    """Close the node and ask its pods to leave, for so long. Returns which of them have not left in
    time and what holds them, or nothing; by the strict policy they are the failure of the step.
    Whoever is told to stop, or fails, lets pods onto it again."""
    unwind.add(Kubernetes.uncordon, node, BRIEF)
    await do(Kubernetes.cordon, node, BRIEF)
    try:
        await do(Kubernetes.drain, Draining(node=node, seconds=seconds), DRAINING)
    except FailureError as error:
        why = understood(error)
        if why.reason != "DRAIN_OVERDUE" or policy is DrainPolicy.STRICT:
            raise
        return why.message
    return ""
