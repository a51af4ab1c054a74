"""The Kubernetes APIs of simulated clusters: a real HTTPS server per control-plane host.

Good for kubectl and for clients that speak JSON. Whoever shows a certificate of the cluster's
authority is known by it; only administrators may do anything, and everybody may ask whether the
server lives. A certificate of another authority ends the TLS handshake, where the real API would
answer 401: Python's TLS knows no other way."""

import asyncio
import ssl
import tempfile
from pathlib import Path
from typing import Any

from aiohttp import web

from sim.clusters import SimulatedClusters
from sim.clusters.authority import Pair
from sim.clusters.cluster import ADMINS, Cluster
from sim.faults import Fault, Faults, How
from sim.kubernetes import addons, errors, kinds
from sim.kubernetes.errors import Body, StatusError
from sim.kubernetes.objects import Objects
from sim.kubernetes.requests import Requests, Target, User, reply
from sim.pace import Clock

ANONYMOUS = User(name="system:anonymous", groups=("system:unauthenticated",))

_MASTERS = frozenset({ADMINS, "system:masters"})
_PROBES = frozenset({"/healthz", "/livez", "/readyz"})
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Server:
    """One listening socket, and the connections it has taken."""

    def __init__(self, cluster_uid: str, protocol: web.Server, socket: asyncio.Server) -> None:
        self.cluster_uid = cluster_uid
        self._protocol, self._socket = protocol, socket

    async def close(self) -> None:
        """At once, as when the power goes."""
        self._socket.close()
        for connection in self._protocol.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._protocol.shutdown(timeout=0.1)


class SimulatedApiServers:
    """The `ApiServers` of `SimulatedClusters`, by the address of their host."""

    def __init__(self, clusters: SimulatedClusters, clock: Clock, faults: Faults) -> None:
        self._clusters, self._clock, self._faults = clusters, clock, faults
        self._servers: dict[str, _Server] = {}
        self._requests: dict[str, Requests] = {}
        self._configured: dict[str, str] = {}
        self._changing = asyncio.Lock()

    async def serve(self, cluster_uid: str, address: str) -> None:
        async with self._changing:
            cluster, running = self._clusters.get(cluster_uid), self._servers.get(address)
            if cluster is None or (running and running.cluster_uid == cluster_uid):
                return
            await self._stop(address)
            requests = self._requests_of(cluster)

            async def answer(request: web.BaseRequest) -> web.StreamResponse:
                return await self._answer(request, cluster_uid, address, requests)

            protocol = web.Server(answer, handler_cancellation=True, access_log=None)
            context = await asyncio.to_thread(
                _tls, cluster.authority.certificate, cluster.servers[address]
            )
            loop = asyncio.get_running_loop()
            socket = await loop.create_server(protocol, address, cluster.port, ssl=context)
            self._servers[address] = _Server(cluster_uid, protocol, socket)

    async def stop(self, address: str) -> None:
        async with self._changing:
            await self._stop(address)

    async def close(self) -> None:
        """Stop them all."""
        async with self._changing:
            for address in list(self._servers):
                await self._stop(address)

    async def _stop(self, address: str) -> None:
        if (server := self._servers.pop(address, None)) is not None:
            await server.close()

    def _requests_of(self, cluster: Cluster) -> Requests:
        """One for all servers of a cluster, and for those who watch across a restart of one."""
        uid = cluster.uid
        if uid not in self._requests:
            objects = Objects(self._clusters, uid, self._clock)
            self._requests[uid] = Requests(objects, self._clock, lambda: self._clusters.alive(uid))
        if not self._clusters.objects(uid):
            addons.install(cluster, self._requests[uid].objects)
        return self._requests[uid]

    async def _answer(
        self, request: web.BaseRequest, uid: str, address: str, requests: Requests
    ) -> web.StreamResponse:
        cluster = self._clusters.get(uid)
        name = cluster.called if cluster else uid
        fault = self._faults.meet(f"kubernetes {name} {request.method} {request.path}")
        try:
            if fault is not None:
                await self._befall(fault)
            if fault is None or fault.how is not How.DROP:
                response = await self._respond(request, uid, address, requests)
            else:
                response = web.Response()
        except StatusError as error:
            response = reply(error.status, error.code, error.headers)
        if fault is not None and fault.how in (How.DROP, How.HALF) and request.transport:
            request.transport.abort()
        return response

    async def _befall(self, fault: Fault) -> None:
        match fault.how:
            case How.SLOW:
                await self._clock.sleep(fault.seconds)
            case How.HANG:
                await asyncio.Event().wait()
            case How.REFUSE | How.FAIL:
                reason = "ServiceUnavailable" if fault.status == 503 else ""
                raise StatusError(
                    fault.status, reason, fault.message, retry_after=fault.retry_after
                )

    async def _respond(
        self, request: web.BaseRequest, uid: str, address: str, requests: Requests
    ) -> web.StreamResponse:
        await request.read()  # from here on nothing is waited for, so the cluster stays what it is
        if (cluster := self._clusters.get(uid)) is None:
            raise errors.no_quorum()
        alive = self._clusters.alive(cluster.uid)
        if request.path.rstrip("/") in _PROBES:
            return _probed(request, alive=alive)
        if request.path == "/version":
            return reply(_version(cluster.apis.get(address, cluster.version)))
        user = _user(request)
        if user is ANONYMOUS and "Authorization" in request.headers:
            raise errors.unauthorised()
        if _MASTERS.isdisjoint(user.groups):
            raise _forbidden(request, user)
        if (told := _discovered(request, cluster.version)) is not None:
            return told
        target = Target.of(request.path)
        if not alive:
            raise errors.no_quorum()
        if self._configured.get(uid) != cluster.version:
            self._configured[uid] = cluster.version
            addons.renew(cluster, requests.objects)
        return await requests.answer(request, target, user)


def _tls(authority: str, pair: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority)
    with tempfile.TemporaryDirectory() as place:  # OpenSSL reads keys from files only
        file = Path(place, "serving.pem")
        file.touch(0o600)
        file.write_text(pair.certificate + pair.key)
        context.load_cert_chain(file)
    return context


def _user(request: web.BaseRequest) -> User:
    certificate: Any = request.get_extra_info("peercert")
    if not certificate:
        return ANONYMOUS
    subject = [pair for group in certificate.get("subject", ()) for pair in group]
    names = [value for field, value in subject if field == "commonName"]
    groups = [value for field, value in subject if field == "organizationName"]
    return User(name=names[0] if names else "", groups=(*groups, "system:authenticated"))


def _forbidden(request: web.BaseRequest, user: User) -> StatusError:
    try:
        target = Target.of(request.path)
    except StatusError:
        message = f'User "{user.name}" cannot get path "{request.path}"'
        return StatusError(403, "Forbidden", f"forbidden: {message}")
    verb = target.verb(request.method, watching="watch" in request.query)
    kind = target.kind
    return errors.forbidden(user.name, verb, kind.plural, kind.group, target.namespace)


def _probed(request: web.BaseRequest, *, alive: bool) -> web.Response:
    probe = request.path.strip("/")
    if alive and "verbose" not in request.query:
        return web.Response(text="ok")
    etcd = "[+]etcd ok" if alive else "[-]etcd failed: reason withheld"
    passed = f"{probe} check {'passed' if alive else 'failed'}"
    return web.Response(text=f"[+]ping ok\n{etcd}\n{passed}\n", status=200 if alive else 500)


def _version(version: str) -> Body:
    major, minor, _ = version.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}",
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2025-01-01T00:00:00Z",
        "goVersion": "go1.23.4",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def _discovered(request: web.BaseRequest, release: str) -> web.Response | None:
    """What the API has to offer, in the form the caller prefers. None: that is not the question."""
    known = kinds.GROUP_VERSIONS
    parts = request.path.strip("/").split("/")
    aggregated = _AGGREGATED in request.headers.get("Accept", "").replace(" ", "")
    match parts:
        case ["api" | "apis"] if aggregated:
            body = kinds.aggregated(core=parts == ["api"])
            return reply(body, headers={"Content-Type": _AGGREGATED})
        case ["api"]:
            body = kinds.api_versions(request.host)
        case ["apis"]:
            body = kinds.group_list()
        case ["api", "v1"]:
            body = kinds.resource_list("", "v1", release)
        case ["apis", group] if any(group == name for name, _ in known):
            body = kinds.group_of(group)
        case ["apis", group, version] if (group, version) in known:
            body = kinds.resource_list(group, version, release)
        case ["openapi", "v3"]:
            body = kinds.openapi_index()
        case ["openapi", "v3", "api", "v1"]:
            body = kinds.openapi("", "v1")
        case ["openapi", "v3", "apis", group, version] if (group, version) in known:
            body = kinds.openapi(group, version)
        case _:
            return None
    return reply(body)
