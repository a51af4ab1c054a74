"""What may be done with the objects of one cluster: the middle of the simulated API."""

from typing import Any

from domain.frozen import Frozen
from sim.clusters import SimulatedClusters
from sim.kubernetes import errors, nodes, patches
from sim.kubernetes.admission import admitted, is_network
from sim.kubernetes.apply import applied
from sim.kubernetes.budgets import admit_eviction
from sim.kubernetes.errors import Body
from sim.kubernetes.history import History
from sim.kubernetes.kinds import (
    BUDGETS,
    DAEMONSETS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    Kind,
    eviction_version,
)
from sim.kubernetes.pods import Pods, is_derived
from sim.kubernetes.shelves import Shelves
from sim.kubernetes.view import BUILT_IN, View, key
from sim.pace import Clock

APPLY = "application/apply-patch+yaml"
_PATCHES = {
    "application/json-patch+json": patches.json_patched,
    "application/merge-patch+json": patches.merged,
    "application/strategic-merge-patch+json": patches.strategic,
}


class Options(Frozen):
    """What a caller says beside the object."""

    manager: str = ""
    force: bool = False
    dry_run: bool = False


class Objects:
    """Every change is in the ledger before its method returns, and everything shown has its
    version from `history`."""

    def __init__(self, clusters: SimulatedClusters, uid: str, clock: Clock) -> None:
        self._clusters, self._uid = clusters, uid
        self._shelves = Shelves(clusters, uid, clock)
        self._pods = Pods(self._shelves)
        self._view = View(self._shelves, self._pods)
        self.history = History(int(clock.now() * 1000))

    def all(self, kind: Kind) -> list[Body]:
        """Every object of a kind, by namespace and name."""
        bodies = {key(body): body for body in self._view.all(kind)}
        return self.history.see_all(kind.resource, bodies)

    def find(self, kind: Kind, namespace: str, name: str) -> Body | None:
        body = self._view.find(kind, namespace, name)
        return self.history.see(kind.resource, f"{namespace}/{name}", body)

    def get(self, kind: Kind, namespace: str, name: str) -> Body:
        if (body := self.find(kind, namespace, name)) is None:
            raise errors.not_found(kind.plural, kind.group, name)
        return body

    def create(self, kind: Kind, namespace: str, body: Body, options: Options) -> Body:
        if kind is NODES:  # their kubelets register them
            raise errors.not_allowed()
        body = self._admitted(kind, namespace, body)
        name = body["metadata"]["name"]
        if self.find(kind, namespace, name) is not None:
            raise errors.exists(kind.plural, kind.group, name)
        body = self._shelves.born(kind, body)
        if options.dry_run or kind in EVENTS:  # events are heard and forgotten
            return body
        self._put(kind, body)
        return self.get(kind, namespace, name)

    def replace(self, kind: Kind, namespace: str, name: str, body: Body, options: Options) -> Body:
        return self._update(kind, self.get(kind, namespace, name), body, options)

    def patch(
        self, kind: Kind, namespace: str, name: str, form: str, patch: Any, options: Options
    ) -> Body:
        if form not in _PATCHES:
            raise errors.unsupported(form)
        current = self.get(kind, namespace, name)
        return self._update(kind, current, _PATCHES[form](current, patch), options)

    def apply(
        self, kind: Kind, namespace: str, name: str, config: Body, options: Options
    ) -> tuple[Body, bool]:
        """The object, and whether it is new."""
        if not options.manager:
            raise errors.malformed("fieldManager is required for apply patch")
        current = self.find(kind, namespace, name)
        metadata = {"name": name} | ({"namespace": namespace} if kind.namespaced else {})
        config = config | {"metadata": (config.get("metadata") or {}) | metadata}
        body = applied(
            current,
            config,
            manager=options.manager,
            force=options.force,
            time=self._shelves.now(),
        )
        if current is None:
            return self.create(kind, namespace, body, options), True
        return self._update(kind, current, body, options), False

    def delete(self, kind: Kind, namespace: str, name: str, asked: Body, *, dry_run: bool) -> Body:
        """Take an object away, at once. What it was."""
        current = self.get(kind, namespace, name)
        for field, wanted in (asked.get("preconditions") or {}).items():
            if current["metadata"].get(field) != wanted:
                because = f"the {field} in the precondition ({wanted}) does not match"
                raise errors.outdated(kind.resource, name, because)
        if kind is NAMESPACES and name in BUILT_IN:
            raise errors.protected(name)
        if not dry_run:
            self._drop(kind, current)
            self.find(kind, namespace, name)
        return current

    def evict(self, namespace: str, name: str, asked: Body, *, dry_run: bool) -> None:
        """Delete a pod, if its PodDisruptionBudget can spare it. An eviction may be as old as it
        likes, but not newer than the server."""
        if asked.get("apiVersion") == "policy/v1" and eviction_version(self._release()) != "v1":
            raise errors.malformed('no kind "Eviction" is registered for version "policy/v1"')
        pod = self.get(PODS, namespace, name)
        admit_eviction(pod, self._view.all(BUDGETS))
        self.delete(PODS, namespace, name, asked.get("deleteOptions") or {}, dry_run=dry_run)

    def _release(self) -> str:
        cluster = self._clusters.get(self._uid)
        if cluster is None:
            raise errors.no_quorum()
        return cluster.version

    def _update(self, kind: Kind, current: Body, wanted: Body, options: Options) -> Body:
        """Make an object what it is wanted to be. Wanting what it is changes nothing."""
        was, metadata = current["metadata"], wanted.get("metadata") or {}
        name, namespace = was["name"], was.get("namespace", "")
        for field, word in (("uid", "UID"), ("resourceVersion", "version")):
            if metadata.get(field) not in (None, "", was[field]):
                why = "" if word == "version" else f"{word} does not match"
                raise errors.outdated(kind.resource, name, why)
        fixed = {
            field: was[field]
            for field in ("name", "namespace", "uid", "creationTimestamp", "generation")
            if field in was
        }
        if metadata.get("name", name) != name:
            raise errors.malformed(f"the name of the object is {name} and cannot be changed")
        if "managedFields" not in metadata and "managedFields" in was:
            fixed["managedFields"] = was["managedFields"]
        versionless = {field: metadata[field] for field in metadata if field != "resourceVersion"}
        body = self._admitted(kind, namespace, wanted | {"metadata": versionless | fixed})
        if body.get("spec") != current.get("spec") and "generation" in was:
            body["metadata"]["generation"] = was["generation"] + 1
        body["metadata"]["resourceVersion"] = was["resourceVersion"]
        if body == current or options.dry_run:
            return body
        del body["metadata"]["resourceVersion"]
        self._put(kind, body)
        return self.get(kind, namespace, name)

    def _put(self, kind: Kind, body: Body) -> None:
        if kind is NODES:
            clusters, uid = self._shelves.clusters, self._shelves.uid
            node = clusters.node(uid, body["metadata"]["name"])
            if node is not None:
                clusters.keep_node(nodes.taken(node, body, self._shelves.seconds()))
        elif not (kind is PODS and is_derived(body)):
            self._shelves.put(kind, body)
            if kind is DAEMONSETS and is_network(body):
                self._shelves.clusters.network_applied(self._shelves.uid)

    def _drop(self, kind: Kind, body: Body) -> None:
        name = body["metadata"]["name"]
        if kind is NODES:
            self._shelves.clusters.delete_node(self._shelves.uid, name)
        elif kind is PODS:
            self._pods.remove(body)
        else:
            self._shelves.drop(kind, body)
        if kind is NAMESPACES:
            self._shelves.empty(name)

    def _admitted(self, kind: Kind, namespace: str, body: Any) -> Body:
        """A copy that may be stored, in a namespace that exists."""
        fit = admitted(kind, namespace, body)
        if kind.namespaced and self.find(NAMESPACES, "", namespace) is None:
            raise errors.not_found("namespaces", "", namespace)
        return fit
