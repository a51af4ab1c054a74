"""PodDisruptionBudgets: how many of some pods may be missing at a time."""

from collections.abc import Iterable
from math import ceil
from typing import Any

from sim.kubernetes.errors import Body, StatusError, budget_spent
from sim.kubernetes.pods import is_ready
from sim.kubernetes.selectors import matches


def counted(budget: Body, pods: Iterable[Body], replicas: dict[str, int]) -> Body:
    """A budget with its sums. `replicas`: how many pods each owner wants, by its uid; pods of
    nobody count as many as they are."""
    mine = _covered(budget, pods)
    healthy = sum(is_ready(pod) for pod in mine)
    owners = {owner["uid"] for pod in mine for owner in pod["metadata"].get("ownerReferences", ())}
    known = owners & replicas.keys()
    expected = sum(replicas[owner] for owner in known) if known else len(mine)
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        desired = expected - _amount(spec["maxUnavailable"], expected)
    else:
        desired = _amount(spec.get("minAvailable", 1), expected)
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": max(0, desired),
        "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    return budget | {"status": status}


def admit_eviction(pod: Body, budgets: Iterable[Body]) -> None:
    """Refuse the eviction that one of these counted budgets does not allow now. A pod that is not
    ready makes nothing worse by going, unless its budget is overdrawn already."""
    covering = [budget for budget in budgets if _covered(budget, [pod])]
    if len(covering) > 1:
        raise StatusError(
            500,
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support.",
        )
    for budget in covering:
        status = budget["status"]
        needed, healthy = status["desiredHealthy"], status["currentHealthy"]
        if healthy - is_ready(pod) < needed:
            raise budget_spent(budget["metadata"]["name"], needed, healthy)


def _covered(budget: Body, pods: Iterable[Body]) -> list[Body]:
    return [
        pod
        for pod in pods
        if pod["metadata"].get("namespace") == budget["metadata"]["namespace"]
        and matches(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})
    ]


def _amount(value: Any, of: int) -> int:
    """A number, or a percentage of the pods, rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return ceil(int(value[:-1]) * of / 100)
    return int(value)
