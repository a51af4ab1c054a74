"""The Kubernetes APIs of the clusters we build, through lightkube.

Calls go to the endpoint's name, with the credentials that kubeadm left in the vault. Where that
name cannot be looked up, they go to the first of the endpoint's addresses that takes a connection;
the certificates are good for either."""

import asyncio
import copy
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import yaml
from lightkube import AsyncClient, KubeConfig
from lightkube.codecs import resource_registry
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError, LoadResourceError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node as NodeResource
from lightkube.types import PatchType

from domain import ports
from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable
from domain.machine import Role
from domain.naming import POOL_LABEL
from domain.ports import Node, Vault

Answer = TypeVar("Answer")

FIELD_MANAGER = "windlass"
NETWORK = Path(__file__).parent / "data" / "network.json"
"""The pod network that is installed unless another is given: flannel over VXLAN in 10.244.0.0/16,
which must be the cluster's pod subnet. An operator who wants another gives its manifest's path."""

ROLE_LABEL = "node-role.kubernetes.io/"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"

_CLIENTS = 64
_CONNECT_SECONDS = 3.0
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
    ) -> None:
        """With `resolve`, the endpoint's name is looked up like any other. Without, the node's own
        `addresses` are tried, or else those that `addresses` knows for the endpoint's name."""
        self._vault = vault
        self._resolve = resolve
        self._addresses = addresses
        self._network = network
        self._timeout = httpx2.Timeout(
            timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)
        )
        self._clients = _Clients(self._timeout)

    async def close(self) -> None:
        await self._clients.close()

    async def ready(self, node: Node) -> bool:
        """Whether the API answers /readyz through its endpoint. Every probe is a connection of its
        own: one that is open already proves nothing about the next."""
        try:
            await self._first(node, "GET /readyz", self._probe)
        except Unavailable:
            return False
        return True

    async def install_network(self, node: Node) -> None:
        """Apply the pod network, object by object. What others changed in it is taken back."""
        for document in await asyncio.to_thread(_manifest, self._network):
            await self._apply(node, document)

    async def node_ready(self, node: Node) -> str | None:
        """The kubelet's version, without a v, once the node is Ready; None while it is not."""
        try:
            found = await self._node(node)
        except NotFound:
            return None
        status = found.status
        if status is None or status.nodeInfo is None:
            return None
        for condition in status.conditions or ():
            if condition.type == "Ready" and condition.status == "True":
                return status.nodeInfo.kubeletVersion.removeprefix("v")
        return None

    async def label(self, node: Node) -> None:
        """Put the slot's labels on the node, and on a control plane its taint. Labels and taints
        of others stay. A node that lacks nothing is not written to."""
        name = node.slot.name

        async def once() -> None:
            patch = _lacking(node, await self._node(node))
            if patch:
                await self._call(
                    node,
                    f"PATCH nodes/{name}",
                    lambda client: client.patch(
                        NodeResource, name, patch, patch_type=PatchType.MERGE
                    ),
                )

        await _insist(f"labelling node {name} of {node.slot.cluster}", once)

    async def delete_node(self, node: Node) -> None:
        """Take the node out of the API. No such node is success, and so is no kubeconfig: there
        never was an API then."""
        name = node.slot.name
        with suppress(NotFound):
            await self._call(
                node, f"DELETE nodes/{name}", lambda client: client.delete(NodeResource, name)
            )

    async def _node(self, node: Node) -> NodeResource:
        name = node.slot.name
        return await self._call(
            node, f"GET nodes/{name}", lambda client: client.get(NodeResource, name)
        )

    async def _apply(self, node: Node, document: dict[str, Any]) -> None:
        """Server-side apply: the fields in `document` become ours, and applying twice changes
        nothing. The document goes out as it is; lightkube's models drop what they do not know."""
        name = document["metadata"]["name"]
        kind: Any = resource_registry.load(document["apiVersion"], document["kind"])

        async def once() -> None:
            await self._call(
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

    async def _probe(self, way: "_Way") -> None:
        params = client_adapter.ConnectionParams(timeout=self._timeout, trust_env=False)
        async with await _opened(
            way, lambda: client_adapter.AsyncClient(way.config, params)
        ) as http:
            (await http.get("/readyz")).raise_for_status()

    async def _call(
        self, node: Node, call: str, send: Callable[[AsyncClient], Awaitable[Answer]]
    ) -> Answer:
        async def through(way: _Way) -> Answer:
            async with self._clients.use(way) as client:
                return await send(client)

        return await self._first(node, call, through)

    async def _first(
        self, node: Node, call: str, send: Callable[["_Way"], Awaitable[Answer]]
    ) -> Answer:
        """What the first way that leads anywhere answers."""
        *others, last = await self._ways(node)
        with _translated(node, call):
            for way in others:
                with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                    return await send(way)
            return await send(last)

    async def _ways(self, node: Node) -> list["_Way"]:
        """At least one. The vault is asked each time, since a control plane that is begun anew on
        another machine has other credentials."""
        slot = node.slot
        secret = await self._vault.open(ports.kubeconfig(slot.cluster_uid))
        config = _parsed(secret, slot.cluster)
        if self._resolve:
            return [_Way(slot.cluster_uid, secret, config)]
        addresses: Sequence[str] = node.addresses
        if not addresses and self._addresses is not None:
            addresses = await self._addresses(node.endpoint)
        if not addresses:
            raise Unavailable(f"no address is known for {node.endpoint}", subject=node.endpoint)
        return [_Way(slot.cluster_uid, secret, _moved(config, address)) for address in addresses]


@dataclass(frozen=True)
class _Way:
    """One server of a cluster's API, and the credentials for it."""

    cluster_uid: str
    secret: bytes
    config: SingleConfig


@dataclass
class _Held:
    client: AsyncClient
    secret: bytes
    users: int = 0
    retired: bool = False


class _Clients:
    """Open clients by cluster and server, the longest unused closed first when there are too many.
    One that is in use is closed once it is not."""

    def __init__(self, timeout: httpx2.Timeout) -> None:
        self._timeout = timeout
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._taking = asyncio.Lock()

    @asynccontextmanager
    async def use(self, way: _Way) -> AsyncIterator[AsyncClient]:
        async with self._taking:
            held = await self._take(way)
            held.users += 1
        try:
            yield held.client
        finally:
            held.users -= 1
            if held.retired and not held.users:
                await held.client.close()

    async def close(self) -> None:
        async with self._taking:
            while self._held:
                await self._retire(self._held.popitem()[1])

    async def _take(self, way: _Way) -> _Held:
        key = (way.cluster_uid, way.config.cluster.server)
        held = self._held.get(key)
        if held is not None and held.secret == way.secret:
            self._held.move_to_end(key)
            return held
        client = await _opened(
            way,
            lambda: AsyncClient(
                way.config, timeout=self._timeout, field_manager=FIELD_MANAGER, trust_env=False
            ),
        )
        if held is not None:
            await self._retire(held)
        fresh = self._held[key] = _Held(client, way.secret)
        while len(self._held) > _CLIENTS:
            await self._retire(self._held.popitem(last=False)[1])
        return fresh

    async def _retire(self, held: _Held) -> None:
        held.retired = True
        if not held.users:
            await held.client.close()


async def _opened(way: _Way, make: Callable[[], Answer]) -> Answer:
    """What `make` makes, in a thread: OpenSSL reads keys from files only."""
    try:
        return await asyncio.to_thread(make)
    except (ssl.SSLError, ValueError) as error:
        server = way.config.cluster.server
        raise Failed(f"the credentials for {server} cannot be used: {error}") from error


async def _insist(what: str, once: Callable[[], Awaitable[None]]) -> None:
    """Do it, again when another writer came first: what is written is never built on old news."""
    for _ in range(_TRIES):
        with suppress(Conflict):
            return await once()
    raise Unavailable(f"{what} met another writer {_TRIES} times")


def _lacking(node: Node, found: NodeResource) -> dict[str, Any] | None:
    """A merge patch with what the node lacks of its labels and taints, None if it lacks nothing."""
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
    if slot.role is Role.CONTROL_PLANE and not any(taint.key == key for taint in taints):
        # the list is replaced as a whole, so the patch holds only for the node as we read it
        patch.setdefault("metadata", {})["resourceVersion"] = metadata.resourceVersion
        others = [taint.to_dict() for taint in taints]
        patch["spec"] = {"taints": [*others, {"key": key, "effect": "NoSchedule"}]}
    return patch or None


def _manifest(path: Path) -> list[dict[str, Any]]:
    """The objects of a manifest, in its order, those in lists among them. Only of kinds that
    Kubernetes has by itself: objects of a new kind would have to wait for it to be known."""
    documents: list[dict[str, Any]] = []
    try:
        for document in yaml.safe_load_all(path.read_text()):
            if document:
                documents += document["items"] if document["kind"] == "List" else [document]
        for document in documents:
            resource_registry.load(document["apiVersion"], document["kind"])
            document["metadata"]["name"]
    except (OSError, yaml.YAMLError, LookupError, TypeError, LoadResourceError) as error:
        raise Failed(f"the network manifest {path} cannot be applied: {error}") from error
    return documents


def _parsed(secret: bytes, cluster: str) -> SingleConfig:
    try:
        config = KubeConfig.from_dict(yaml.safe_load(secret)).get()
    except (yaml.YAMLError, LookupError, TypeError, ValueError, ConfigError) as error:
        raise Failed(f"the kubeconfig of {cluster} cannot be read: {error}") from error
    if config is None or config.user is None:
        raise Failed(f"the kubeconfig of {cluster} names no user")
    return config


def _moved(config: SingleConfig, address: str) -> SingleConfig:
    """The same cluster, reached at an address instead of its name."""
    cluster = copy.copy(config.cluster)
    cluster.server = str(httpx2.URL(cluster.server).copy_with(host=address))
    return config._replace(cluster=cluster)


@contextmanager
def _translated(node: Node, call: str) -> Iterator[None]:
    whom = f"the Kubernetes API of {node.slot.cluster}"
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise _refusal(whom, call, error) from error
    except (httpx2.TransportError, ssl.SSLError) as error:
        words = str(error) or type(error).__name__
        if _is_about_trust(error):
            raise Failed(f"{whom} and we do not trust each other at {call}: {words}") from error
        raise Unavailable(f"{whom} did not answer {call}: {words}") from error
    except (LookupError, ValueError) as error:
        # lightkube takes every refusal for a Status, and stumbles over one from a proxy
        if isinstance(error.__context__, httpx2.HTTPStatusError):
            raise _refusal(whom, call, error.__context__) from error
        if isinstance(error, LookupError):
            raise
        raise Unavailable(f"{whom} did not speak Kubernetes at {call}: {error}") from error


def _refusal(whom: str, call: str, error: httpx2.HTTPStatusError) -> DomainError:
    code = error.response.status_code
    text = f"{whom} answered {code} to {call}: {error}"
    if code == 429 or code >= 500:
        return Unavailable(text)
    return {404: NotFound, 409: Conflict}.get(code, Failed)(text)


def _is_about_trust(error: BaseException | None) -> bool:
    """Whether one side refused the other's certificate. A connection that broke while it was being
    secured is an ssl.SSLError too, and no such thing."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            return True
        error = error.__cause__ or error.__context__
    return False
