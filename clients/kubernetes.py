"""The Kubernetes APIs of the clusters we build: what we ask of them, through lightkube."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from lightkube import AsyncClient, operators
from lightkube.codecs import resource_registry
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node as NodeResource
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from clients.kubernetes_connections import CLIENTS, Connections
from clients.kubernetes_home import runs_in
from clients.kubernetes_network import NETWORK, objects
from clients.kubernetes_pods import (
    RESOURCES,
    came_back,
    evicted,
    eviction_version,
    full_name,
    is_leaving,
    listed,
    must_leave,
)
from clients.kubernetes_storage import documents
from domain.errors import Conflict, DomainError, NotFound, Unavailable
from domain.machine import Role
from domain.naming import POOL_LABEL
from domain.ports import Node, Supply, Vault
from domain.seen import NodeSeen, Readiness
from domain.storage_home import Home, home

ROLE_LABEL = "node-role.kubernetes.io/"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"

CLOSED = "windlass/closed"
"""The annotation on nodes that we closed to pods, and so may open again."""

UNWANTED = "cluster.k8s.io/delete-machine"
"""The annotation by which people say which node of a pool is to go first, whatever its value."""

READINESS = {"True": Readiness.READY, "False": Readiness.NOT_READY}
"""What the condition Ready may be. Whatever else it says, nobody knows how the node is."""

PAGE = 500
"""So many nodes are asked for at once."""

_TRIES = 3


class KubernetesApi:
    """Speaks for every cluster there is. One instance per process; `close` it at the end."""

    def __init__(
        self,
        vault: Vault,
        *,
        resolve: bool = True,
        addresses: Callable[[str], Awaitable[Sequence[str]]] | None = None,
        timeout_seconds: float = 10,
        network: Path = NETWORK,
        networks: Mapping[str, Path] | None = None,
        clients: int = CLIENTS,
    ) -> None:
        """With `resolve`, the endpoint's name is looked up like any other. Without, the node's own
        `addresses` are tried, or else those that `addresses` knows for the endpoint's name. A
        cluster gets the `network` of that manifest, or of the one in `networks` for its version. So
        many `clients` stay open. A manifest that could not be applied is Failed at once."""
        self._network, self._networks = network, networks or {}
        for manifest in {network, *self._networks.values()} - {NETWORK}:
            objects(manifest)
        self._vault = vault
        self._connections = Connections(
            vault,
            resolve=resolve,
            addresses=addresses,
            timeout_seconds=timeout_seconds,
            clients=clients,
        )

    async def close(self) -> None:
        await self._connections.close()

    async def ready(self, node: Node) -> bool:
        """Whether the API answers /readyz through its endpoint. Certificates that are not trusted
        and users who may not are Failed: waiting would not mend them."""
        try:
            await self._connections.probe(node, "/readyz")
        except Unavailable:
            return False
        return True

    async def install_network(self, node: Node) -> None:
        """Apply the pod network that goes with the release of the node's slot, object by object.
        What others changed in it is taken back."""
        manifest = self._networks.get(node.slot.release.version, self._network)
        for document in await asyncio.to_thread(objects, manifest):
            await self._apply(node, document)

    async def supply(self, supply: Supply) -> None:
        """Apply what a cluster is told of its pool. The key goes from the vault into its Secret."""
        key = await self._vault.open(supply.identity.secret)
        for document in documents(supply, key):
            await self._apply(supply.node, document)

    async def node_ready(self, node: Node) -> str | None:
        """The kubelet's version, without a v, once the node is Ready; None while it is not."""
        try:
            return _kubelet(await self._node(node))
        except NotFound:
            return None

    async def api_version(self, node: Node) -> str | None:
        """The version, without a v, of the API server at the first of the node's addresses; None
        while it does not answer. A server being replaced refuses, resets and says it is not ready:
        all of that is waited out by whoever asks."""
        try:
            answer = await self._connections.ask_directly(node, "/version")
            return str(answer.json()["gitVersion"]).removeprefix("v")
        except (Unavailable, LookupError, TypeError, ValueError):
            return None

    async def serves(self, node: Node) -> bool:
        """Whether the server at the first of the node's addresses answers what etcd alone can
        tell. A connection that was kept may have died meanwhile: then it is asked once more."""
        name = node.slot.name
        for _ in range(2):
            with suppress(DomainError):
                with suppress(NotFound):
                    await self._connections.call_directly(
                        node, f"GET nodes/{name}", lambda client: client.get(NodeResource, name)
                    )
                return True
        return False

    async def observe(self, node: Node) -> tuple[NodeSeen, ...]:
        """Every node there is. The list comes from etcd and not from the API server's memory, so
        an answer says that both work."""
        found = await self._connections.call(node, "GET nodes", _all_nodes)
        return tuple(_seen(each) for each in found)

    async def home(self, node: Node, namespace: str) -> Home:
        """Its nodes, and what of storage runs in that namespace."""
        ask = partial(runs_in, namespace=namespace)
        found = await self._connections.call(node, f"GET what runs in {namespace}", ask)
        try:
            return home(namespace, found)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise Unavailable(
                f"the Kubernetes API of {node.slot.cluster} did not say what runs in {namespace} "
                f"as others do: {type(error).__name__}",
                subject=namespace,
            ) from error

    async def label(self, node: Node) -> None:
        """Put the slot's labels on the node, and on a control plane its taint, unless there are no
        workers: as we are told, or as the nodes say that there are. Labels and taints of others
        stay. A node that lacks nothing is not written to."""
        name, workless = node.slot.name, node.workless
        if workless is None:
            workless = not await self._connections.call(node, "GET nodes", _workers)

        async def once() -> None:
            patch = _lacking(node, await self._node(node), workless=workless)
            if patch:
                await self._connections.call(
                    node,
                    f"PATCH nodes/{name}",
                    lambda client: client.patch(
                        NodeResource, name, patch, patch_type=PatchType.MERGE
                    ),
                )

        await _insist(f"labelling node {name} of {node.slot.cluster}", once)

    async def cordon(self, node: Node) -> None:
        """Let no more pods onto the node, and mark that it was we. One that is closed already is
        left as it is: whoever closed it opens it. No such node is success."""
        with suppress(NotFound):
            if not _is_closed(await self._node(node)):
                await self._set_closed(node, True)

    async def uncordon(self, node: Node) -> None:
        """Let pods onto a node again that we closed. One that somebody else closed stays so. No
        such node is success."""
        with suppress(NotFound):
            if _is_marked(await self._node(node)):
                await self._set_closed(node, None)

    async def disown(self, node: Node) -> None:
        """Take our mark off the node, if it is open. One that is written to meanwhile is left: it
        may have been closed. No such node is success."""
        name = node.slot.name
        with suppress(NotFound, Conflict):
            found = await self._node(node)
            if _is_marked(found) and not _is_closed(found):
                version = found.metadata and found.metadata.resourceVersion
                patch = {"metadata": {"annotations": {CLOSED: None}, "resourceVersion": version}}
                await self._connections.call(
                    node,
                    f"PATCH nodes/{name}",
                    lambda client: client.patch(
                        NodeResource, name, patch, patch_type=PatchType.MERGE
                    ),
                )

    async def _set_closed(self, node: Node, closed: bool | None) -> None:
        """Who has just been answered asks at once again if that gets no answer: an API that flaps
        might else never be read and written to in one go."""
        name, mark = node.slot.name, None if closed is None else "true"
        patch = {"metadata": {"annotations": {CLOSED: mark}}, "spec": {"unschedulable": closed}}

        async def once() -> None:
            await self._connections.call(
                node,
                f"PATCH nodes/{name}",
                lambda client: client.patch(NodeResource, name, patch, patch_type=PatchType.MERGE),
            )

        for _ in range(_TRIES - 1):
            with suppress(Unavailable):
                return await once()
        return await once()

    async def evict(self, node: Node) -> tuple[str, ...]:
        """Ask every pod on the node to leave that could run elsewhere, and name those still there.

        Pods that a DaemonSet or the node itself keeps there, those that have ended, and those that
        came there after it was closed are left.
        On a node that is not Ready nobody ends a pod: there one that was told to go counts as
        gone, and it is given a second."""
        try:
            own = await self._node(node)
            ready = _kubelet(own) is not None
            found = await self._connections.call(
                node, f"GET pods on {node.slot.name}", lambda client: listed(client, node.slot.name)
            )
            staying = [
                pod
                for pod in found
                if must_leave(pod) and not came_back(pod, own) and (ready or not is_leaving(pod))
            ]
            if not staying:
                return ()
            version = await self._eviction_version(node)
            left = [await self._evicted(node, pod, version, ready) for pod in staying]
        except NotFound:
            return ()
        return tuple(each for each in left if each)

    async def _eviction_version(self, node: Node) -> str:
        """How evictions are called there. It changes when a cluster is upgraded, so it is asked."""
        try:
            return eviction_version((await self._connections.probe(node, RESOURCES)).json())
        except (LookupError, TypeError, ValueError) as error:
            raise Unavailable(
                f"the Kubernetes API of {node.slot.cluster} does not say how pods are evicted: "
                f"{type(error).__name__} at {RESOURCES}",
                subject=node.slot.name,
            ) from error

    async def _evicted(self, node: Node, pod: Pod, version: str, ready: bool) -> str:
        """How the pod is named while it is there, with the budget that holds it; empty: gone."""
        if is_leaving(pod):
            return f"{full_name(pod)} (on its way out)"
        try:
            return await self._connections.call(
                node,
                f"evict pod {full_name(pod)}",
                lambda client: evicted(client, pod, version, None if ready else 1),
            )
        except NotFound:
            return ""

    async def delete_node(self, node: Node) -> None:
        """Take the node out of the API. No such node is success, and so is no kubeconfig: there
        never was an API then."""
        name = node.slot.name
        with suppress(NotFound):
            await self._connections.call(
                node, f"DELETE nodes/{name}", lambda client: client.delete(NodeResource, name)
            )

    async def _node(self, node: Node) -> NodeResource:
        name = node.slot.name
        return await self._connections.call(
            node, f"GET nodes/{name}", lambda client: client.get(NodeResource, name)
        )

    async def _apply(self, node: Node, document: dict[str, Any]) -> None:
        """Server-side apply: the fields in `document` become ours, and applying twice changes
        nothing. The document goes out as it is; lightkube's models drop what they do not know."""
        name = document["metadata"]["name"]
        kind: Any = resource_registry.load(document["apiVersion"], document["kind"])

        async def once() -> None:
            await self._connections.call(
                node,
                f"apply {document['kind']} {name}",
                lambda client: client.patch(
                    kind,
                    name,
                    document,
                    namespace=document["metadata"].get("namespace"),
                    patch_type=PatchType.APPLY,
                    force=True,
                ),
            )

        await _insist(f"applying {document['kind']} {name} to {node.slot.cluster}", once)


async def _insist(what: str, once: Callable[[], Awaitable[None]]) -> None:
    """Do it, again when another writer came first: what is written is never built on old news."""
    for _ in range(_TRIES):
        with suppress(Conflict):
            return await once()
    raise Unavailable(f"{what} met another writer {_TRIES} times")


async def _all_nodes(client: AsyncClient) -> list[NodeResource]:
    return [each async for each in client.list(NodeResource, chunk_size=PAGE)]


def _seen(node: NodeResource) -> NodeSeen:
    status = node.status
    conditions = (status and status.conditions) or []
    ready = next((each for each in conditions if each.type == "Ready"), None)
    info = status.nodeInfo if status else None
    return NodeSeen(
        name=(node.metadata and node.metadata.name) or "",
        readiness=READINESS.get(ready.status if ready else "", Readiness.UNKNOWN),
        reason=(ready and ready.reason) or "",
        since=ready.lastTransitionTime if ready else None,
        kubelet=info.kubeletVersion.removeprefix("v") if info else "",
        schedulable=not _is_closed(node),
        closed_by_us=_is_marked(node),
        unwanted=UNWANTED in ((node.metadata and node.metadata.annotations) or {}),
    )


def _kubelet(node: NodeResource) -> str | None:
    """The version of its kubelet, without a v, if it is Ready."""
    status = node.status
    if status is None or status.nodeInfo is None:
        return None
    for condition in status.conditions or ():
        if condition.type == "Ready" and condition.status == "True":
            return status.nodeInfo.kubeletVersion.removeprefix("v")
    return None


def _is_closed(node: NodeResource) -> bool:
    return bool(node.spec and node.spec.unschedulable)


def _is_marked(node: NodeResource) -> bool:
    return CLOSED in ((node.metadata and node.metadata.annotations) or {})


async def _workers(client: AsyncClient) -> bool:
    """Whether any node is no control plane."""
    others: dict[str, Any] = {ROLE_LABEL + Role.CONTROL_PLANE: operators.not_exists()}
    async for _ in client.list(NodeResource, labels=others, chunk_size=1):
        return True
    return False


def _lacking(node: Node, found: NodeResource, *, workless: bool) -> dict[str, Any] | None:
    """A merge patch with what the node lacks of its labels and taints, None if it lacks nothing.
    Where there are no workers, kubeadm's taint goes, or no pod would find a place."""
    slot = node.slot
    wanted = {INSTANCE_TYPE_LABEL: slot.instance_type} if slot.instance_type else {}
    wanted |= {label.name: label.value for label in slot.labels}
    wanted |= {POOL_LABEL: slot.pool, ROLE_LABEL + slot.role: ""}
    metadata = found.metadata or ObjectMeta()
    present = metadata.labels or {}
    patch: dict[str, Any] = {}
    if any(present.get(key) != value for key, value in wanted.items()):
        patch["metadata"] = {"labels": wanted}
    taints = (found.spec and found.spec.taints) or []
    key = ROLE_LABEL + Role.CONTROL_PLANE
    is_tainted = any(taint.key == key for taint in taints)
    if slot.role is Role.CONTROL_PLANE and is_tainted is workless:
        # the list is replaced as a whole, so the patch holds only for the node as we read it
        patch.setdefault("metadata", {})["resourceVersion"] = metadata.resourceVersion
        others = [taint.to_dict() for taint in taints if taint.key != key]
        ours = [] if workless else [{"key": key, "effect": "NoSchedule"}]
        patch["spec"] = {"taints": [*others, *ours]}
    return patch or None
