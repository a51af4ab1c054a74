"""Nodes as the API shows them: what the cluster knows, and what a kubelet would report."""

import zlib
from datetime import UTC, datetime

from sim.clusters.cluster import Cluster, Node, Taint
from sim.kubernetes.errors import Body

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

_LIFECYCLE = frozenset({UNSCHEDULABLE, NOT_READY, UNREACHABLE})
"""Taints that follow from a node's state. They are shown and never stored."""

_IMAGES = {"jammy": "Ubuntu 22.04.5 LTS", "noble": "Ubuntu 24.04.2 LTS"}
_KERNELS = {"jammy": "5.15.0-130-generic", "noble": "6.8.0-59-generic"}


def moment(seconds: float) -> str:
    """A time as metav1.Time writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(node: Node, cluster: Cluster, *, ready: bool, runs: bool) -> Body:
    """The Node object, without its version."""
    taints = [taint.model_dump(exclude_defaults=True) for taint in node.taints]
    if node.unschedulable:
        since = {"timeAdded": moment(node.closed)} if node.closed else {}
        taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule", **since})
    if not ready:
        taints.append({"key": NOT_READY if runs else UNREACHABLE, "effect": "NoSchedule"})
    spec: Body = {"podCIDR": _pod_cidr(cluster, node)}
    spec["podCIDRs"] = [spec["podCIDR"]]
    if taints:
        spec["taints"] = taints
    if node.unschedulable:
        spec["unschedulable"] = True
    metadata: Body = {
        "name": node.name,
        "uid": node.uid,
        "creationTimestamp": moment(node.created),
        "labels": dict(node.labels),
    }
    if node.annotations:
        metadata["annotations"] = dict(node.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": _status(node, cluster, ready=ready, runs=runs),
    }


def taken(node: Node, body: Body, now: float) -> Node:
    """The node with what a client may change of it: labels, annotations, taints, cordon."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    closes = bool(spec.get("unschedulable")) and not node.unschedulable
    return node.model_copy(
        update={
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "unschedulable": bool(spec.get("unschedulable")),
            "closed": now if closes else node.closed,
            "taints": [
                Taint.model_validate({**taint, "value": taint.get("value") or ""})
                for taint in spec.get("taints") or ()
                if taint["key"] not in _LIFECYCLE
            ],
        }
    )


def _status(node: Node, cluster: Cluster, *, ready: bool, runs: bool) -> Body:
    capacity = {"cpu": "16", "memory": "65536000Ki", "ephemeral-storage": "479Gi", "pods": "110"}
    return {
        "addresses": [
            {"type": "InternalIP", "address": node.address},
            {"type": "Hostname", "address": node.name},
        ],
        "allocatable": capacity | {"memory": "65433600Ki"},
        "capacity": capacity,
        "conditions": _conditions(node, cluster, ready=ready, runs=runs),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [],
        "nodeInfo": {
            "architecture": node.labels.get("kubernetes.io/arch", "amd64"),
            "bootID": node.uid,
            "containerRuntimeVersion": "containerd://1.7.24",
            "kernelVersion": _KERNELS.get(node.series, _KERNELS["jammy"]),
            "kubeProxyVersion": f"v{node.version}",
            "kubeletVersion": f"v{node.version}",
            "machineID": node.uid.replace("-", ""),
            "operatingSystem": "linux",
            "osImage": _IMAGES.get(node.series, _IMAGES["jammy"]),
            "systemUUID": node.uid,
        },
    }


def _conditions(node: Node, cluster: Cluster, *, ready: bool, runs: bool) -> list[Body]:
    if not runs:
        unknown = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        told = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"), unknown)
    else:
        told = {
            "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has memory"),
            "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has disk"),
            "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has PIDs"),
            "Ready": ("False", "KubeletNotReady", "the kubelet is starting"),
        }
        if ready:
            told["Ready"] = ("True", "KubeletReady", "kubelet is posting ready status")
        elif cluster.network_since is None:
            why = "container runtime network not ready: cni plugin not initialized"
            told["Ready"] = ("False", "KubeletNotReady", why)
    since = moment(max(node.joined, node.turned, (cluster.network_since or 0) if ready else 0))
    return [
        {
            "type": condition,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": since,
            "lastTransitionTime": since,
        }
        for condition, (status, reason, message) in told.items()
    ]


def _pod_cidr(cluster: Cluster, node: Node) -> str:
    """A /24 of the pod subnet that stays the node's. Two nodes may share one; nothing is routed."""
    first, second, *_ = cluster.pod_subnet.split(".")
    return f"{first}.{second}.{zlib.crc32(node.uid.encode()) % 256}.0/24"
