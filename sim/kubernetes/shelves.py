"""Where a cluster's objects lie, by kind, namespace and name; nodes excepted."""

from uuid import uuid4

from sim.clusters import SimulatedClusters
from sim.clusters.cluster import Cluster, Node
from sim.kubernetes.errors import Body
from sim.kubernetes.kinds import Kind
from sim.kubernetes.nodes import moment
from sim.pace import Clock


class Shelves:
    """What is stored of one cluster, as it was written. Nothing here is derived."""

    def __init__(self, clusters: SimulatedClusters, uid: str, clock: Clock) -> None:
        self.clusters, self.uid = clusters, uid
        self._clock = clock

    @property
    def cluster(self) -> Cluster:
        cluster = self.clusters.get(self.uid)
        if cluster is None:
            raise LookupError(f"cluster {self.uid} is gone")
        return cluster

    def seconds(self) -> float:
        return self._clock.now()

    def now(self) -> str:
        return moment(self._clock.now())

    def nodes(self) -> list[Node]:
        return self.clusters.nodes(self.uid)

    def control_plane_version(self, node: Node) -> str:
        """Which version of the control plane runs on a node's host."""
        return self.cluster.apis.get(node.address, self.cluster.version)

    def find(self, kind: Kind, namespace: str, name: str) -> Body | None:
        return self.clusters.objects(self.uid).get(_key(kind, namespace, name))

    def all(self, kind: Kind) -> list[Body]:
        prefix = f"{kind.resource}/"
        objects = self.clusters.objects(self.uid)
        return [body for key, body in objects.items() if key.startswith(prefix)]

    def put(self, kind: Kind, body: Body) -> None:
        metadata = body["metadata"]
        key = _key(kind, metadata.get("namespace", ""), metadata["name"])
        self.clusters.put_object(self.uid, key, body)

    def drop(self, kind: Kind, body: Body) -> None:
        """Take an object away, and whatever it owns."""
        metadata = body["metadata"]
        key = _key(kind, metadata.get("namespace", ""), metadata["name"])
        self.clusters.drop_object(self.uid, key)
        self._drop_owned(metadata["uid"])

    def empty(self, namespace: str) -> None:
        """Drop everything in a namespace."""
        for key, body in list(self.clusters.objects(self.uid).items()):
            if body["metadata"].get("namespace") == namespace:
                self.clusters.drop_object(self.uid, key)

    def _drop_owned(self, uid: str) -> None:
        for key, body in list(self.clusters.objects(self.uid).items()):
            owners = body["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == uid for owner in owners):
                self.clusters.drop_object(self.uid, key)
                self._drop_owned(body["metadata"]["uid"])

    def born(self, kind: Kind, body: Body) -> Body:
        """A new object: what it was asked to be, with an identity."""
        metadata = body["metadata"] | {"uid": str(uuid4()), "creationTimestamp": self.now()}
        if "spec" in body and "generation" not in metadata:
            metadata["generation"] = 1
        return {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}


def _key(kind: Kind, namespace: str, name: str) -> str:
    return f"{kind.resource}/{namespace}/{name}"
