"""The Kubernetes that a Ceph cluster belongs to: its nodes, and with Rook what runs there of it.

Documents are the API's own. One that lacks what every such object has raises LookupError,
TypeError, ValueError, AttributeError or ArithmeticError, which the client translates; a status
that is not there yet is unknown."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import FiniteFloat

from domain import reliability
from domain.frozen import Frozen
from domain.quantity import amount
from domain.reliability import Score
from domain.storage_resources import Resource, Standing, StorageNode

Document = Mapping[str, Any]

ROLE = "node-role.kubernetes.io/"
ROOK, ROOK_VERSION = "ceph.rook.io", "v1"
COMPONENT = "app.kubernetes.io/component"
OURS = "cephclusters.ceph.rook.io"
"""The component of every pod that belongs to a cluster of Rook's."""

TOOLBOX = "rook-ceph-tools"
PROVISIONERS = ("csi-rbdplugin-provisioner", "csi-cephfsplugin-provisioner")

READINESS: dict[str, Standing] = {"True": Standing.READY}
"""What a node's condition Ready may say; anything else is not."""

STATES: dict[str, Standing] = {
    **dict.fromkeys(("Created", "Connected"), Standing.READY),
    **dict.fromkeys(("Connecting", "Creating", "Updating"), Standing.PROGRESSING),
    **dict.fromkeys(("Error", "Deleting"), Standing.NOT_READY),
}
"""What a CephCluster says of itself. Another word is one that nobody knows."""

PHASES: dict[str, Standing] = {
    "Ready": Standing.READY,
    "Progressing": Standing.PROGRESSING,
    "": Standing.UNKNOWN,
}
"""What the other kinds say; anything else is not ready."""

KINDS: dict[str, str] = {
    "CephCluster": "cephclusters",
    "CephBlockPool": "cephblockpools",
    "CephFilesystem": "cephfilesystems",
    "CephObjectStore": "cephobjectstores",
}
"""Those that are shown, in their order, by what the API calls them."""


class Member(Frozen):
    """A node, with what it has."""

    node: StorageNode
    kubelet: str = ""
    cpus: FiniteFloat = 0.0
    memory_bytes: int = 0
    storage_bytes: int = 0
    stores: bool = False
    """Whether anything of Ceph runs on it."""


class Deployed(Frozen):
    """A deployment, and which group of daemons it is of."""

    name: str
    group: str
    wanted: int
    ready: int
    standing: Standing


class Home(Frozen):
    namespace: str
    members: tuple[Member, ...] = ()
    deployments: tuple[Deployed, ...] = ()
    resources: tuple[Resource, ...] = ()
    """Rook's own. Empty: it is not there."""
    incomplete: tuple[str, ...] = ()
    """Kinds that we may not list."""
    uses_all_devices: bool = False

    @property
    def is_rook(self) -> bool:
        return any(each.kind == "CephCluster" for each in self.resources)

    @property
    def toolbox(self) -> bool:
        return any(each.name == TOOLBOX for each in self.deployments)

    @property
    def provisioners(self) -> list[Score]:
        """How many of each are ready."""
        found = [each for each in self.deployments if each.group in PROVISIONERS]
        return [reliability.pair(each.ready) for each in found]


class Listed(Frozen):
    """What the API was asked for: documents by kind. None: we may not list them."""

    nodes: tuple[Document, ...]
    pods: tuple[Document, ...] = ()
    deployments: tuple[Document, ...] = ()
    rook: Mapping[str, tuple[Document, ...] | None] = {}


def home(namespace: str, listed: Listed) -> Home:
    stored = {pod["spec"].get("nodeName", "") for pod in listed.pods}
    clusters = listed.rook.get("CephCluster") or ()
    return Home(
        namespace=namespace,
        members=tuple(
            sorted((member(each, stored) for each in listed.nodes), key=lambda it: it.node.name)
        ),
        deployments=tuple(
            sorted((deployed(each) for each in listed.deployments), key=lambda it: it.name)
        ),
        resources=tuple(_resources(namespace, listed.rook)),
        incomplete=tuple(kind for kind, found in listed.rook.items() if found is None),
        uses_all_devices=any(
            each["spec"].get("storage", {}).get("useAllDevices", False) for each in clusters
        ),
    )


def member(said: Document, stored: set[str]) -> Member:
    metadata, status = said["metadata"], said.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    ready = conditions.get("Ready")
    capacity = status.get("capacity") or {}
    labels = metadata.get("labels") or {}
    made = metadata.get("creationTimestamp")
    return Member(
        node=StorageNode(
            name=metadata["name"],
            standing=Standing.UNKNOWN
            if ready is None
            else READINESS.get(ready, Standing.NOT_READY),
            roles=tuple(sorted(key[len(ROLE) :] for key in labels if key.startswith(ROLE))),
            internal=address(status, "Internal"),
            external=address(status, "External"),
            created=datetime.fromisoformat(made).astimezone(UTC) if made else None,
        ),
        kubelet=(status.get("nodeInfo") or {}).get("kubeletVersion", "").removeprefix("v"),
        cpus=amount(capacity.get("cpu", "")),
        memory_bytes=int(amount(capacity.get("memory", ""))),
        storage_bytes=int(amount(capacity.get("ephemeral-storage", ""))),
        stores=metadata["name"] in stored,
    )


def address(status: Document, side: str) -> str:
    """An address rather than a name."""
    said = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
    return str(said.get(f"{side}IP") or said.get(f"{side}DNS") or "")


def deployed(said: Document) -> Deployed:
    metadata, status = said["metadata"], said.get("status") or {}
    wanted = said["spec"].get("replicas", 1)
    ready, updated = status.get("readyReplicas") or 0, status.get("updatedReplicas") or 0
    if not status:
        standing = Standing.UNKNOWN
    elif 0 < wanted <= ready:
        standing = Standing.READY
    else:
        standing = Standing.PROGRESSING if updated < wanted else Standing.NOT_READY
    labels = metadata.get("labels") or {}
    return Deployed(
        name=metadata["name"],
        group=labels.get("app", metadata["name"]),
        wanted=wanted,
        ready=ready,
        standing=standing,
    )


def _resources(namespace: str, rook: Mapping[str, tuple[Document, ...] | None]) -> list[Resource]:
    made = []
    for kind in KINDS:
        found = rook.get(kind, ())
        if found is None:
            made.append(_resource(kind, namespace, "", Standing.UNKNOWN, 0))
            continue
        for each in sorted(found, key=lambda it: str(it["metadata"]["name"])):
            standing, wanted = _stands(kind, each), WANTED[kind](each["spec"])
            made.append(_resource(kind, namespace, each["metadata"]["name"], standing, wanted))
    return made


def _resource(kind: str, namespace: str, name: str, standing: Standing, wanted: int) -> Resource:
    return Resource(
        api_version=f"{ROOK}/{ROOK_VERSION}",
        kind=kind,
        namespace=namespace,
        name=name,
        standing=standing,
        wanted=wanted,
    )


def _stands(kind: str, said: Document) -> Standing:
    status = said.get("status") or {}
    if kind != "CephCluster":
        return PHASES.get(status.get("phase", ""), Standing.NOT_READY)
    if not status.get("ceph"):
        return Standing.UNKNOWN
    return STATES.get(status.get("state", ""), Standing.UNKNOWN)


def _mons(spec: Document) -> int:
    return int(spec.get("mon", {}).get("count", 0))


def _copies(spec: Document) -> int:
    """Copies, or chunks of either sort."""
    coded = spec.get("erasureCoded") or {}
    chunks = coded.get("dataChunks", 0) + coded.get("codingChunks", 0)
    return int(chunks or (spec.get("replicated") or {}).get("size", 0))


def _metadata_servers(spec: Document) -> int:
    """Each has one that stands by."""
    return 2 * int(spec.get("metadataServer", {}).get("activeCount", 0))


def _gateways(spec: Document) -> int:
    return int(spec.get("gateway", {}).get("instances", 0))


WANTED = {
    "CephCluster": _mons,
    "CephBlockPool": _copies,
    "CephFilesystem": _metadata_servers,
    "CephObjectStore": _gateways,
}


def oldest(versions: Sequence[str]) -> str:
    """Of versions such as 1.32.1, and of whatever else somebody calls one."""

    def rank(version: str) -> list[int]:
        numbers = version.partition("+")[0].partition("-")[0].split(".")
        return [int(each) if each.isdigit() else 0 for each in numbers]

    return min((each for each in versions if each), key=rank, default="")
