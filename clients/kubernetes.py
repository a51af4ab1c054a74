"""The Kubernetes APIs of the clusters we build, through lightkube.

Calls go to the endpoint's name, with the credentials that kubeadm left in the vault. Where names
cannot be asked for, they go to the first of the endpoint's addresses that takes a connection; the
certificates are good for either."""

import asyncio
import json
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import yaml
from lightkube import ApiError, AsyncClient, KubeConfig, SingleConfig
from lightkube.codecs import resource_registry
from lightkube.config import client_adapter
from lightkube.core.exceptions import ConfigError
from lightkube.resources.core_v1 import Node as NodeResource
from lightkube.types import PatchType

from domain import ports
from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable
from domain.machine import Role
from domain.naming import POOL_LABEL
from domain.ports import Node, Vault

FIELD_MANAGER = "windlass"
NETWORK = Path(__file__).parent / "data" / "network.json"
"""The pod network installed unless another is given: flannel over VXLAN on 10.244.0.0/16, which
must be the cluster's pod subnet. An operator who wants another gives the path of its manifest."""

ROLE_LABEL = "node-role.kubernetes.io/"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"

_CLIENTS_KEPT = 64
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
        """With `resolve` the endpoint's name is looked up as any other. Without, the node's own
        `addresses` are tried, or else those that `addresses` knows for the endpoint's name."""
        self._vault = vault
        self._resolve = resolve
        self._addresses = addresses
        self._timeout = httpx2.Timeout(
            timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)
        )
        self._network = network
        self._clients = _Clients(self._timeout)

    async def close(self) -> None:
        await self._clients.close()

    async def ready(self, node: Node) -> bool:
        """Whether the API answers /readyz through its endpoint. Every probe is a connection of its
        own: one that is already open proves nothing about the next."""
        try:
            await self._through_any(node, "GET /readyz", self._probe)
        except Unavailable:
            return False
        return True

    async def install_network(self, node: Node) -> None:
        """Apply the pod network, object by object; what others changed in it is taken back."""
        for document in await asyncio.to_thread(_documents, self._network):
            await self._apply(node, document)

    async def node_ready(self, node: Node) -> str | None:
        """The kubelet's version, without a v, once the node is Ready; None while it is not."""
        try:
            found = await self._node(node)
        except NotFound:
            return None
        conditions = (found.status and found.status.conditions) or []
        if not any(known.type == "Ready" and known.status == "True" for known in conditions):
            return None
        info = found.status and found.status.nodeInfo
        return info.kubeletVersion.removeprefix("v") if info else None

    async def label(self, node: Node) -> None:
        """Put the slot's labels on the node, and the taint of a control plane. Labels and taints
        of others stay. A node that has them all is not written to."""
        for _ in range(_TRIES):
            patch = _missing(node, await self._node(node))
            if patch is None:
                return
            try:
                await self._patch_node(node, patch)
            except Conflict:  # somebody wrote to the node since we read it
                continue
            return
        raise Unavailable(f"node {node.slot.name} of {node.slot.cluster} is written to too often")

    async def delete_node(self, node: Node) -> None:
        """Take the node out of the API. No such node is success, and so is no kubeconfig: then
        there never was an API."""
        name = node.slot.name

        async def delete(config: SingleConfig, secret: bytes) -> None:
            async with self._clients.use(config, secret, node.slot.cluster_uid) as client:
                await client.delete(NodeResource, name)

        try:
            await self._through_any(node, f"DELETE node {name}", delete)
        except NotFound:
            return

    async def _node(self, node: Node) -> NodeResource:
        name = node.slot.name

        async def get(config: SingleConfig, secret: bytes) -> NodeResource:
            async with self._clients.use(config, secret, node.slot.cluster_uid) as client:
                return await client.get(NodeResource, name)

        return await self._through_any(node, f"GET node {name}", get)

    async def _patch_node(self, node: Node, patch: dict[str, Any]) -> None:
        name = node.slot.name

        async def send(config: SingleConfig, secret: bytes) -> None:
            async with self._clients.use(config, secret, node.slot.cluster_uid) as client:
                await client.patch(NodeResource, name, patch, patch_type=PatchType.MERGE)

        await self._through_any(node, f"PATCH node {name}", send)

    async def _apply(self, node: Node, document: dict[str, Any]) -> None:
