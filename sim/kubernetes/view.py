"""The objects of one cluster as they are now: what is stored, and what follows from it."""

from collections.abc import Iterable
from uuid import NAMESPACE_DNS, uuid5

from sim.clusters.cluster import Node
from sim.kubernetes import nodes
from sim.kubernetes.budgets import counted
from sim.kubernetes.errors import Body
from sim.kubernetes.kinds import (
    BUDGETS,
    DAEMONSETS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICATED,
    Kind,
)
from sim.kubernetes.nodes import moment
from sim.kubernetes.pods import Pods, daemons_counted, replicas_counted
from sim.kubernetes.shelves import Shelves

LEASE_NAMESPACE = "kube-node-lease"
BUILT_IN = ("default", LEASE_NAMESPACE, "kube-public", "kube-system")
"""The namespaces there are from the beginning, and to the end."""

_LEASE_SECONDS = 40


def key(body: Body) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"


class View:
    """Objects without their versions."""

    def __init__(self, shelves: Shelves, pods: Pods) -> None:
        self._shelves, self._pods = shelves, pods

    def all(self, kind: Kind) -> list[Body]:
        stored = self._shelves.all(kind)
        if kind is NODES:
            return [self._node(node) for node in self._shelves.nodes()]
        if kind is PODS:
            return self._pods.all()
        if kind is NAMESPACES:
            return _with(stored, map(self._namespace, BUILT_IN))
        if kind is LEASES:
            return _with(stored, (self._lease(node) for node in self._shelves.nodes()))
        if not stored or kind not in (DAEMONSETS, BUDGETS, *REPLICATED):
            return stored
        pods = self._pods.all()
        if kind is DAEMONSETS:
            return [daemons_counted(body, pods) for body in stored]
        if kind is BUDGETS:
            wanted = self._replicas()
            return [counted(body, pods, wanted) for body in stored]
        return [replicas_counted(body, pods) for body in stored]

    def find(self, kind: Kind, namespace: str, name: str) -> Body | None:
        if kind is NODES:
            known = self._shelves.clusters.node(self._shelves.uid, name)
            return None if known is None else self._node(known)
        if kind in (PODS, NAMESPACES, LEASES, DAEMONSETS, BUDGETS, *REPLICATED):
            wanted = f"{namespace}/{name}"
            return next((body for body in self.all(kind) if key(body) == wanted), None)
        return self._shelves.find(kind, namespace, name)

    def _node(self, node: Node) -> Body:
        shelves = self._shelves
        return nodes.shown(
            node,
            shelves.cluster,
            ready=shelves.clusters.node_ready(shelves.uid, node.name),
            runs=shelves.clusters.node_runs(shelves.uid, node.name),
        )

    def _namespace(self, name: str) -> Body:
        cluster = self._shelves.cluster
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "uid": str(uuid5(NAMESPACE_DNS, f"{cluster.uid}/{name}")),
                "creationTimestamp": moment(cluster.created),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }

    def _lease(self, node: Node) -> Body:
        """A kubelet's lease: renewed as long as its host runs."""
        shelves = self._shelves
        runs = shelves.clusters.node_runs(shelves.uid, node.name)
        now = shelves.seconds() if runs else max(node.joined, node.turned)
        renewed = moment(now - now % (_LEASE_SECONDS // 4)).replace("Z", ".000000Z")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": node.name,
                "namespace": LEASE_NAMESPACE,
                "uid": str(uuid5(NAMESPACE_DNS, f"{node.uid}/lease")),
                "creationTimestamp": moment(node.created),
            },
            "spec": {
                "holderIdentity": node.name,
                "leaseDurationSeconds": _LEASE_SECONDS,
                "renewTime": renewed,
            },
        }

    def _replicas(self) -> dict[str, int]:
        return {
            owner["metadata"]["uid"]: owner["spec"].get("replicas", 1)
            for kind in REPLICATED
            for owner in self._shelves.all(kind)
        }


def _with(stored: list[Body], derived: Iterable[Body]) -> list[Body]:
    """What is stored, and what is derived unless somebody has stored it since."""
    known = {key(body) for body in stored}
    return [*stored, *(body for body in derived if key(body) not in known)]
