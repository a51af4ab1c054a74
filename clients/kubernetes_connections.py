"""Connections to the Kubernetes APIs of many clusters: where they lead, and how they fail.

Calls go to the endpoint's name, with the credentials that kubeadm left in the vault. Where that
name cannot be looked up, they go to the first of the endpoint's addresses that takes a connection;
the certificates are good for either."""

import asyncio
import copy
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

import httpx2
import yaml
from lightkube import AsyncClient, KubeConfig
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError

from domain import ports
from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable
from domain.ports import Node, Vault

Answer = TypeVar("Answer")

FIELD_MANAGER = "windlass"
"""Under which name we own the fields that we apply."""

CLIENTS = 64
"""Connections that are kept open, unless it is said otherwise."""

PARSED = 2000
"""Kubeconfigs that are kept parsed."""

_CONNECT_SECONDS = 3.0
_WORDS = 200


@dataclass(frozen=True)
class Way:
    """One server of a cluster's API, and the credentials for it."""

    cluster_uid: str
    secret: bytes = field(repr=False)
    config: SingleConfig = field(repr=False)

    @property
    def server(self) -> str:
        return self.config.cluster.server

    def to(self, address: str) -> "Way":
        """The same cluster, reached at an address instead of its name."""
        cluster = copy.copy(self.config.cluster)
        cluster.server = str(httpx2.URL(cluster.server).copy_with(host=address))
        return replace(self, config=self.config._replace(cluster=cluster))


class Connections:
    """To every cluster there is. What fails is a domain error that says who, what and why."""

    def __init__(
        self,
        vault: Vault,
        *,
        resolve: bool,
        addresses: Callable[[str], Awaitable[Sequence[str]]] | None,
        timeout_seconds: float,
        clients: int = CLIENTS,
    ) -> None:
        self._vault = vault
        self._resolve = resolve
        self._addresses = addresses
        self._timeout = httpx2.Timeout(
            timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)
        )
        self._clients = _Clients(self._timeout, clients)

    async def close(self) -> None:
        await self._clients.close()

    async def call(
        self, node: Node, what: str, send: Callable[[AsyncClient], Awaitable[Answer]]
    ) -> Answer:
        """Let `send` ask over a connection that may be used for more."""

        async def through(way: Way) -> Answer:
            async with self._clients.use(way) as client:
                return await send(client)

        return await self._first(node, what, through)

    async def probe(self, node: Node, path: str) -> httpx2.Response:
        """What lies at a path, asked for over a connection of its own: one that is already open
        proves nothing about the next."""
        return await self._first(node, f"GET {path}", lambda way: self._get(way, path))

    async def ask_directly(self, node: Node, path: str) -> httpx2.Response:
        """What the server at the first of the node's addresses answers, and no other, whether
        names can be looked up or not."""
        way, whom = await self._directly(node)
        with _translated(whom, f"GET {path}"):
            return await self._get(way, path)

    async def call_directly(
        self, node: Node, what: str, send: Callable[[AsyncClient], Awaitable[Answer]]
    ) -> Answer:
        """Let `send` ask the same server, over a connection that may be used for more."""
        way, whom = await self._directly(node)
        with _translated(whom, what):
            async with self._clients.use(way) as client:
                return await send(client)

    async def _directly(self, node: Node) -> tuple[Way, str]:
        """To the server at the first of the node's addresses, and how messages call it."""
        if not node.addresses:
            raise Unavailable(f"no address is known for {node.named}", subject=node.named)
        address = node.addresses[0]
        whom = f"the Kubernetes API of {node.slot.cluster} on {address}"
        return (await self._way(node)).to(address), whom

    async def _get(self, way: Way, path: str) -> httpx2.Response:
        """A connection of its own, and closed with its answer."""
        params = client_adapter.ConnectionParams(timeout=self._timeout, trust_env=False)
        http = await _opened(way, lambda: client_adapter.AsyncClient(way.config, params))
        async with http:
            return (await http.get(path)).raise_for_status()

    async def _first(
        self, node: Node, what: str, send: Callable[[Way], Awaitable[Answer]]
    ) -> Answer:
        """What the first way that leads anywhere answers."""
        *others, last = await self._ways(node)
        with _translated(f"the Kubernetes API of {node.slot.cluster}", what):
            for way in others:
                with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                    return await send(way)
            return await send(last)

    async def _ways(self, node: Node) -> list[Way]:
        """At least one."""
        way = await self._way(node)
        if self._resolve:
            return [way]
        addresses: Sequence[str] = node.addresses
        if not addresses and self._addresses is not None:
            addresses = await self._addresses(node.endpoint)
        if not addresses:
            raise Unavailable(f"no address is known for {node.endpoint}", subject=node.endpoint)
        return [way.to(address) for address in addresses]

    async def _way(self, node: Node) -> Way:
        """To the endpoint's name. The vault is asked each time, since a control plane that is begun
        anew on another machine has other credentials."""
        uid = node.slot.cluster_uid
        secret = await self._vault.open(ports.kubeconfig(uid))
        config = _parsed(secret, node.slot.cluster)
        return Way(uid, secret, config)


@dataclass
class _Held:
    client: AsyncClient
    secret: bytes
    users: int = 0
    retired: bool = False


class _Clients:
    """Open clients by cluster and server, the longest unused closed first when there are too many.
    One that is in use is closed once it is not."""

    def __init__(self, timeout: httpx2.Timeout, most: int) -> None:
        self._timeout = timeout
        self._most = most
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._taking = asyncio.Lock()

    @asynccontextmanager
    async def use(self, way: Way) -> AsyncIterator[AsyncClient]:
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

    async def _take(self, way: Way) -> _Held:
        key = (way.cluster_uid, way.server)
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
        while len(self._held) > self._most:
            await self._retire(self._held.popitem(last=False)[1])
        return fresh

    async def _retire(self, held: _Held) -> None:
        held.retired = True
        if not held.users:
            await held.client.close()


async def _opened(way: Way, make: Callable[[], Answer]) -> Answer:
    """What `make` makes, in a thread: OpenSSL reads keys from files only."""
    try:
        return await asyncio.to_thread(make)
    except (ssl.SSLError, ValueError) as error:
        raise Failed(f"the credentials for {way.server} cannot be used: {error}") from error


@lru_cache(maxsize=PARSED)
def _parsed(secret: bytes, cluster: str) -> SingleConfig:
    """The current context of a kubeconfig. Reading YAML takes longer than asking the API."""
    try:
        config = KubeConfig.from_dict(dict(yaml.safe_load(secret))).get()
    except (yaml.YAMLError, LookupError, TypeError, ValueError, ConfigError) as error:
        what = type(error).__name__  # its words, and its cause's, quote the file and its keys
        raise Failed(f"the kubeconfig of {cluster} cannot be read: {what}") from None
    if config is None or config.user is None:
        raise Failed(f"the kubeconfig of {cluster} names no user")
    return config


@contextmanager
def _translated(whom: str, what: str) -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise _refusal(whom, what, error.response) from error
    except (httpx2.TransportError, ssl.SSLError) as error:
        words = str(error) or type(error).__name__
        if _is_about_trust(error):
            raise Failed(f"{whom} and we do not trust each other at {what}: {words}") from error
        raise Unavailable(f"{whom} did not answer {what}: {words}") from error
    except (LookupError, ValueError) as error:
        for behind in _chain(error):  # lightkube takes every refusal for a Status, a proxy's too
            if isinstance(behind, httpx2.HTTPStatusError):
                raise _refusal(whom, what, behind.response) from error
        if isinstance(error, LookupError):
            raise
        raise Unavailable(f"{whom} did not speak Kubernetes at {what}: {error}") from error


def _refusal(whom: str, what: str, response: httpx2.Response) -> DomainError:
    code = response.status_code
    text = f"{whom} answered {code} to {what}: {_words(response)}"
    if code == 429 or code >= 500:
        return Unavailable(text)
    return {404: NotFound, 409: Conflict}.get(code, Failed)(text)


def _words(response: httpx2.Response) -> str:
    """What a refusal says: its Status's message, or its beginning if it is none."""
    try:
        return str(response.json()["message"])
    except (LookupError, TypeError, ValueError):
        return response.text[:_WORDS].strip() or response.reason_phrase


def _is_about_trust(error: BaseException) -> bool:
    """Whether one side refused the other's certificate. A connection that broke while it was being
    secured is an ssl.SSLError too, and no such thing."""
    return any(
        isinstance(behind, ssl.SSLCertVerificationError)
        or (isinstance(behind, ssl.SSLError) and "ALERT" in (behind.reason or ""))
        for behind in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
