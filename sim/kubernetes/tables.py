"""Objects as the tables kubectl prints."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from domain.frozen import Frozen
from sim.kubernetes.errors import Body
from sim.kubernetes.kinds import Kind


class Column(Frozen):
    name: str
    cell: Callable[[Body, float], Any]
    """Of an object, and the time now."""
    wide: bool = False
    type: str = "string"


def table(kind: Kind, bodies: Sequence[Body], now: float, metadata: Body) -> Body:
    columns = (_NAME, *COLUMNS.get(kind.resource, (_AGE,)))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type,
                "format": "name" if column is _NAME else "",
                "description": column.name,
                "priority": int(column.wide),
            }
            for column in columns
        ],
        "rows": [
            {
                "cells": [column.cell(body, now) for column in columns],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": body["metadata"],
                },
            }
            for body in bodies
        ],
    }


def age(body: Body, now: float) -> str:
    return since(body["metadata"].get("creationTimestamp"), now)


def since(moment: str | None, now: float) -> str:
    """How long ago something was, as short as kubectl says it."""
    if not moment:
        return "<unknown>"
    then = datetime.strptime(moment[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    seconds = max(0, int(now - then.timestamp()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _both(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _both(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _both(days, "d", hours % 24, "h")
    return f"{days}d"


def _both(many: int, unit: str, rest: int, smaller: str) -> str:
    return f"{many}{unit}{rest}{smaller}" if rest else f"{many}{unit}"


def _path(*path: str, otherwise: str = "<none>") -> Callable[[Body, float], Any]:
    def cell(body: Body, _: float) -> Any:
        value: Any = body
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return otherwise if value in (None, "") else value

    return cell


def _count(*path: str) -> Callable[[Body, float], int]:
    def cell(body: Body, now: float) -> int:
        value = _path(*path)(body, now)
        return len(value) if isinstance(value, (dict, list)) else 0

    return cell


def _number(*path: str) -> Callable[[Body, float], Any]:
    def cell(body: Body, now: float) -> Any:
        value = _path(*path)(body, now)
        return value if isinstance(value, int) else 0

    return cell


def _node_status(body: Body, _: float) -> str:
    conditions = {known["type"]: known["status"] for known in body["status"]["conditions"]}
    words = ["Ready" if conditions.get("Ready") == "True" else "NotReady"]
    if body["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(body: Body, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = body["metadata"].get("labels") or {}
    roles = [label.removeprefix(prefix) for label in labels if label.startswith(prefix)]
    return ",".join(sorted(roles)) or "<none>"


def _internal_address(body: Body, _: float) -> str:
    addresses = body["status"]["addresses"]
    return next((known["address"] for known in addresses if known["type"] == "InternalIP"), "")


def _containers_ready(body: Body, _: float) -> str:
    known = body["status"].get("containerStatuses") or ()
    ready = sum(container["ready"] for container in known)
    return f"{ready}/{len(body['spec'].get('containers') or ())}"


def _pod_status(body: Body, _: float) -> str:
    for container in body["status"].get("containerStatuses") or ():
        if waiting := container["state"].get("waiting"):
            return str(waiting["reason"])
    return str(body["status"]["phase"])


def _replicas_ready(body: Body, _: float) -> str:
    return f"{body['status'].get('readyReplicas', 0)}/{body['spec'].get('replicas', 1)}"


def _node_selector(body: Body, _: float) -> str:
    selector = body["spec"].get("template", {}).get("spec", {}).get("nodeSelector") or {}
    return ",".join(f"{key}={value}" for key, value in selector.items()) or "<none>"


def _role_bound(body: Body, _: float) -> str:
    return f"{body['roleRef']['kind']}/{body['roleRef']['name']}"


def _nothing(_: Body, __: float) -> str:
    return "<none>"


_NAME = Column(name="Name", cell=_path("metadata", "name"))
_AGE = Column(name="Age", cell=age)

_DISRUPTIONS = ("status", "disruptionsAllowed")
_INFO = ("status", "nodeInfo")
_REPLICATED = (
    Column(name="Ready", cell=_replicas_ready),
    Column(name="Up-to-date", cell=_number("status", "updatedReplicas"), type="integer"),
    Column(name="Available", cell=_number("status", "availableReplicas"), type="integer"),
    _AGE,
)
_BINDING = (Column(name="Role", cell=_role_bound), _AGE)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "nodes": (
        Column(name="Status", cell=_node_status),
        Column(name="Roles", cell=_roles),
        _AGE,
        Column(name="Version", cell=_path(*_INFO, "kubeletVersion")),
        Column(name="Internal-IP", cell=_internal_address, wide=True),
        Column(name="External-IP", cell=_nothing, wide=True),
        Column(name="OS-Image", cell=_path(*_INFO, "osImage"), wide=True),
        Column(name="Kernel-Version", cell=_path(*_INFO, "kernelVersion"), wide=True),
        Column(name="Container-Runtime", cell=_path(*_INFO, "containerRuntimeVersion"), wide=True),
    ),
    "pods": (
        Column(name="Ready", cell=_containers_ready),
        Column(name="Status", cell=_pod_status),
        Column(name="Restarts", cell=_number("status", "restarts"), type="integer"),
        _AGE,
        Column(name="IP", cell=_path("status", "podIP"), wide=True),
        Column(name="Node", cell=_path("spec", "nodeName"), wide=True),
        Column(name="Nominated Node", cell=_nothing, wide=True),
        Column(name="Readiness Gates", cell=_nothing, wide=True),
    ),
    "namespaces": (Column(name="Status", cell=_path("status", "phase")), _AGE),
    "configmaps": (Column(name="Data", cell=_count("data"), type="integer"), _AGE),
    "secrets": (
        Column(name="Type", cell=_path("type")),
        Column(name="Data", cell=_count("data"), type="integer"),
        _AGE,
    ),
    "daemonsets.apps": (
        Column(name="Desired", cell=_number("status", "desiredNumberScheduled"), type="integer"),
        Column(name="Current", cell=_number("status", "currentNumberScheduled"), type="integer"),
        Column(name="Ready", cell=_number("status", "numberReady"), type="integer"),
        Column(name="Up-to-date", cell=_number("status", "updatedNumberScheduled"), type="integer"),
        Column(name="Available", cell=_number("status", "numberAvailable"), type="integer"),
        Column(name="Node Selector", cell=_node_selector),
        _AGE,
    ),
    "deployments.apps": _REPLICATED,
    "replicasets.apps": _REPLICATED,
    "statefulsets.apps": _REPLICATED,
    "leases.coordination.k8s.io": (
        Column(name="Holder", cell=_path("spec", "holderIdentity", otherwise="")),
        _AGE,
    ),
    "poddisruptionbudgets.policy": (
        Column(name="Min Available", cell=_path("spec", "minAvailable", otherwise="N/A")),
        Column(name="Max Unavailable", cell=_path("spec", "maxUnavailable", otherwise="N/A")),
        Column(name="Allowed Disruptions", cell=_number(*_DISRUPTIONS), type="integer"),
        _AGE,
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "services": (
        Column(name="Type", cell=_path("spec", "type", otherwise="ClusterIP")),
        Column(name="Cluster-IP", cell=_path("spec", "clusterIP")),
        _AGE,
    ),
}
"""What stands after the name, by resource. What is not here shows its age only."""
