"""Pods: where they run, who made them, and what a kubelet would say of them.

Nothing runs, so nothing has to run all the time: whoever looks at pods first lets the controllers
and the scheduler catch up. A Deployment owns its pods itself, with no ReplicaSet in between, and
nothing rolls out. Pods of DaemonSets and of the control plane follow from the nodes and are not
stored; deleting one makes another in its place."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid5

from domain.machine import Role
from sim.clusters.cluster import Node, Taint
from sim.kubernetes.errors import Body
from sim.kubernetes.kinds import DAEMONSETS, PODS, REPLICATED
from sim.kubernetes.nodes import UNSCHEDULABLE, moment
from sim.kubernetes.shelves import Shelves

CONTROL_PLANE_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Pods:
    """The pods of one cluster."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._turns: Counter[str] = Counter()

    def all(self) -> list[Body]:
        """Every pod, as the API shows it."""
        self._settle()
        nodes = {node.name: node for node in self._shelves.nodes()}
        pods = [*self._shelves.all(PODS), *self._static(), *self._daemons()]
        return [self._shown(pod, nodes.get(pod["spec"].get("nodeName", ""))) for pod in pods]

    def remove(self, pod: Body) -> None:
        """Delete a pod, stored or not."""
        self._turns[_origin(pod)] += 1
        self._shelves.drop(PODS, pod)

    def _settle(self) -> None:
        """Let go of pods whose node is gone, make as many as are wanted, and place them."""
        shelves = self._shelves
        nodes = {node.name for node in shelves.nodes()}
        for pod in shelves.all(PODS):
            if pod["spec"].get("nodeName", "") not in {"", *nodes}:
                shelves.drop(PODS, pod)
        for kind in REPLICATED:
            for owner in shelves.all(kind):
                self._replicate(owner)
        unplaced = [pod for pod in shelves.all(PODS) if not pod["spec"].get("nodeName")]
        for pod in unplaced:
            self._place(pod)

    def _replicate(self, owner: Body) -> None:
        shelves, metadata = self._shelves, owner["metadata"]
        pods = [pod for pod in shelves.all(PODS) if _owner(pod).get("uid") == metadata["uid"]]
        wanted = owner["spec"].get("replicas", 1)
        for pod in pods[wanted:]:
            shelves.drop(PODS, pod)
        for _ in range(wanted - len(pods)):
            self._turns[metadata["uid"]] += 1
            seed = f"{metadata['uid']}/{self._turns[metadata['uid']]}/{shelves.now()}"
            pod = _templated(owner, f"{metadata['name']}-{_suffix(seed)}")
            shelves.put(PODS, shelves.born(PODS, pod))

    def _place(self, pod: Body) -> None:
        """On the fitting node with the fewest pods; nowhere, if none fits."""
        shelves = self._shelves
        load = Counter(known["spec"].get("nodeName") for known in shelves.all(PODS))
        fitting = [
            node
            for node in shelves.nodes()
            if shelves.clusters.node_ready(shelves.uid, node.name) and _enters(pod["spec"], node)
        ]
        if fitting:
            node = min(fitting, key=lambda node: (load[node.name], node.name))
            spec = pod["spec"] | {"nodeName": node.name}
            shelves.put(PODS, pod | {"spec": spec, "status": {"startTime": shelves.now()}})

    def _daemons(self) -> Iterator[Body]:
        for daemonset in self._shelves.all(DAEMONSETS):
            for node in self._shelves.nodes():
                name = daemonset["metadata"]["name"]
                pod = _templated(daemonset, name)
                if _fits(pod["spec"], node):
                    uid = daemonset["metadata"]["uid"]
                    yield self._derived(pod, node, name, f"{uid}/{node.uid}")

    def _static(self) -> Iterator[Body]:
        for node in self._shelves.nodes():
            if node.role is not Role.CONTROL_PLANE:
                continue
            version = self._shelves.control_plane_version(node)
            owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            for component in CONTROL_PLANE_PODS:
                name = f"{component}-{node.name}"
                metadata = {
                    "name": name,
                    "namespace": "kube-system",
                    "labels": {"component": component, "tier": "control-plane"},
                    "annotations": {
                        "kubernetes.io/config.mirror": node.uid,
                        "kubernetes.io/config.source": "file",
                    },
                    "ownerReferences": [owner | {"controller": True}],
                }
                containers = [{"name": component, "image": f"{component}:v{version}"}]
                spec = {"hostNetwork": True, "containers": containers}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
                yield self._derived(pod, node, "", f"{node.uid}/{component}")

    def _derived(self, pod: Body, node: Node, prefix: str, origin: str) -> Body:
        """A pod that follows from a node. `prefix`: of its name, if that has to be made up."""
        seed = f"{origin}/{self._turns[origin]}"
        metadata = pod["metadata"] | {
            "uid": str(uuid5(UUID(node.uid), seed)),
            "creationTimestamp": moment(node.joined),
            "annotations": pod["metadata"].get("annotations", {}) | {_ORIGIN: origin},
        }
        if prefix:
            metadata["name"] = f"{prefix}-{_suffix(seed)}"
        spec = pod["spec"] | {"nodeName": node.name}
        status = {"startTime": moment(node.joined)}
        return pod | {"metadata": metadata, "spec": spec, "status": status}

    def _shown(self, pod: Body, node: Node | None) -> Body:
        spec: Body = {
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            **pod["spec"],
        }
        if node is None:
            return pod | {"spec": spec, "status": _pending()}
        clusters, uid = self._shelves.clusters, self._shelves.uid
        runs, host = clusters.node_runs(uid, node.name), bool(spec.get("hostNetwork"))
        ready = runs and (host or clusters.node_ready(uid, node.name))
        started = (pod.get("status") or {}).get("startTime", moment(node.joined))
        status = {
            "phase": "Running" if ready or not runs else "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True" if ready else "False"},
            ],
            "containerStatuses": [
                _container(container, ready=ready, started=started)
                for container in spec.get("containers") or ()
            ],
            "hostIP": node.address,
            "qosClass": "BestEffort",
            "startTime": started,
        }
        if ready:
            status["podIP"] = node.address if host else _pod_address(pod)
            status["podIPs"] = [{"ip": status["podIP"]}]
        return pod | {"spec": spec, "status": status}


_ORIGIN = "windlass.simulated/origin"
"""The annotation by which a pod that is not stored is known again when it is deleted."""


def daemons_counted(daemonset: Body, pods: Iterable[Body]) -> Body:
    """A DaemonSet with what it would know of its pods."""
    mine, ready = _owned(daemonset, pods)
    status = {
        "currentNumberScheduled": mine,
        "desiredNumberScheduled": mine,
        "numberAvailable": ready,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "numberUnavailable": mine - ready,
        "observedGeneration": daemonset["metadata"].get("generation", 1),
        "updatedNumberScheduled": mine,
    }
    spec = {"updateStrategy": {"type": "RollingUpdate"}, **daemonset["spec"]}
    return daemonset | {"spec": spec, "status": status}


def replicas_counted(owner: Body, pods: Iterable[Body]) -> Body:
    """A Deployment, or what is like one, with what it would know of its pods."""
    mine, ready = _owned(owner, pods)
    available = "True" if ready >= owner["spec"].get("replicas", 1) else "False"
    status = {
        "availableReplicas": ready,
        "conditions": [{"type": "Available", "status": available}],
        "observedGeneration": owner["metadata"].get("generation", 1),
        "readyReplicas": ready,
        "replicas": mine,
        "updatedReplicas": mine,
    }
    return owner | {"status": status}


def is_derived(pod: Body) -> bool:
    """Whether the pod follows from a node, so that there is nothing to store."""
    return bool(_origin(pod))


def _owned(owner: Body, pods: Iterable[Body]) -> tuple[int, int]:
    """How many pods it has, and how many of them are ready."""
    uid = owner["metadata"]["uid"]
    mine = [pod for pod in pods if _owner(pod).get("uid") == uid]
    return len(mine), sum(is_ready(pod) for pod in mine)


def is_ready(pod: Body) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(known["type"] == "Ready" and known["status"] == "True" for known in conditions)


def _owner(pod: Body) -> Body:
    owners: list[Body] = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def _origin(pod: Body) -> str:
    origin: str = (pod["metadata"].get("annotations") or {}).get(_ORIGIN, "")
    return origin


def _templated(owner: Body, name: str) -> Body:
    template = owner["spec"].get("template") or {}
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **(template.get("metadata") or {}),
            "name": name,
            "namespace": metadata["namespace"],
            "ownerReferences": [reference],
        },
        "spec": template.get("spec") or {"containers": []},
    }


def _enters(spec: Mapping[str, Any], node: Node) -> bool:
    """Whether the scheduler puts the pod there: on a closed node only one that tolerates it."""
    closed = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
    return _fits(spec, node) and (
        not node.unschedulable
        or any(_tolerates(toleration, closed) for toleration in spec.get("tolerations") or ())
    )


def _fits(spec: Mapping[str, Any], node: Node) -> bool:
    if not (spec.get("nodeSelector") or {}).items() <= node.labels.items():
        return False
    return all(
        any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ())
        for taint in node.taints
        if taint.effect in ("NoSchedule", "NoExecute")
    )


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    if toleration.get("key") not in (None, "", taint.key):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.value


def _pending() -> Body:
    why = {"reason": "Unschedulable", "message": "no node fits"}
    scheduled = {"type": "PodScheduled", "status": "False", **why}
    return {"phase": "Pending", "conditions": [scheduled], "qosClass": "BestEffort"}


def _container(container: Body, *, ready: bool, started: str) -> Body:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": {"running": {"startedAt": started}} if ready else waiting,
    }


def _pod_address(pod: Body) -> str:
    number = zlib.crc32(pod["metadata"]["uid"].encode())
    return f"10.244.{number >> 8 & 255}.{number & 255}"


def _suffix(seed: str) -> str:
    number, letters = zlib.crc32(seed.encode()), ""
    for _ in range(5):
        number, place = divmod(number, len(_LETTERS))
        letters += _LETTERS[place]
    return letters
