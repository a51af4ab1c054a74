"""Pods that have to leave a node, through the eviction API in whichever version the server has."""

import re
from collections.abc import Mapping
from typing import Any

from lightkube import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import DeleteOptions, ObjectMeta
from lightkube.resources.core_v1 import Node, Pod

MIRROR = "kubernetes.io/config.mirror"
"""On pods that a kubelet runs from a file of its own. Deleting them in the API changes nothing."""

CLOSED = "node.kubernetes.io/unschedulable"
"""The taint of a node that is closed, with the time when it was."""

ENDED = frozenset({"Succeeded", "Failed"})

TOO_MANY = 429
"""How an eviction is refused that would break a PodDisruptionBudget."""

SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""How a pod is refused that several budgets cover: as a fault of the server, code 500."""

RESOURCES = "/api/v1"
"""Where a server lists what pods can be asked for, evictions among it."""

BUDGET = re.compile(r"The disruption budget (\S+) ")


async def listed(client: AsyncClient, node: str) -> list[Pod]:
    """Every pod on the node."""
    on_node = client.list(Pod, namespace="*", fields={"spec.nodeName": node})
    return [pod async for pod in on_node]


def must_leave(pod: Pod) -> bool:
    """Whether the pod runs and could run elsewhere."""
    metadata = pod.metadata or ObjectMeta()
    if MIRROR in (metadata.annotations or {}):
        return False
    if any(owner.kind == "DaemonSet" for owner in metadata.ownerReferences or ()):
        return False
    return not (pod.status and pod.status.phase in ENDED)


def came_back(pod: Pod, node: Node) -> bool:
    """Whether the pod was put on the node after that was closed, which it tolerates. Its owner
    would put another there, and again, so that it counts as one of the node's own; kubectl, which
    looks once, leaves such a pod too. Both times are the cluster's own."""
    spec = pod.spec
    closed = [taint for taint in (node.spec and node.spec.taints) or () if taint.key == CLOSED]
    born = pod.metadata and pod.metadata.creationTimestamp
    if not spec or not born or not any(each.timeAdded and each.timeAdded < born for each in closed):
        return False
    return any(
        each.key in (None, "", CLOSED) and each.effect in (None, "", "NoSchedule")
        for each in spec.tolerations or ()
    )


def is_leaving(pod: Pod) -> bool:
    """Whether the pod was told to go and is not gone yet."""
    return pod.metadata is not None and pod.metadata.deletionTimestamp is not None


def full_name(pod: Pod) -> str:
    metadata = pod.metadata or ObjectMeta()
    return f"{metadata.namespace}/{metadata.name}"


def eviction_version(resources: Mapping[str, Any]) -> str:
    """The API version of evictions by a server's own list: `policy/v1` since Kubernetes 1.22,
    `policy/v1beta1` before. LookupError if it takes no evictions."""
    for entry in resources["resources"]:
        if entry["name"] == "pods/eviction":
            return f"{entry['group']}/{entry['version']}"
    raise LookupError("pods/eviction")


async def evicted(client: AsyncClient, pod: Pod, version: str, grace_seconds: int | None) -> str:
    """Ask a pod to leave. How it is named while it is still there, with what holds it."""
    metadata = pod.metadata or ObjectMeta()
    eviction = Pod.Eviction(
        metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace),
        deleteOptions=DeleteOptions(
            gracePeriodSeconds=grace_seconds,
            preconditions=None,
        ),
    )
    eviction.apiVersion = version  # lightkube fills in its own, whatever it is made with
    try:
        await client.create(eviction, str(metadata.name), namespace=metadata.namespace)
    except ApiError as error:
        if error.response.status_code != TOO_MANY and SEVERAL_BUDGETS not in str(error):
            raise
        return f"{full_name(pod)} (held by {_budget(error)})"
    return f"{full_name(pod)} (asked to leave)"


def _budget(error: ApiError) -> str:
    """Which PodDisruptionBudget refused, as far as the refusal says."""
    details = error.status.details
    causes = (details.causes if details else None) or ()
    for cause in causes:
        if found := BUDGET.search(cause.message or ""):
            return f"PodDisruptionBudget {found[1]}"
    return str(error) if SEVERAL_BUDGETS in str(error) else "a PodDisruptionBudget"
