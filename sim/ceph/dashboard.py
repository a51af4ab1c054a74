"""The REST API of a manager, as far as our client and its like go: versions in the Accept header,
tokens, roles, and the answers of Ceph 18 down to their peculiarities. It marks any OSD as anybody
likes and says yes, and it locks an account that was guessed at."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from sim.ceph.cluster import SimulatedCluster
from sim.ceph.routes import ROUTES, Asked, RefusedError, Route, finds
from sim.faults import Fault, Faults, How
from sim.pace import Clock

PATH = "/ceph"
"""Below what path of the site the manager is."""

USER = "windlass"
TOKEN_SECONDS = 28_800.0
MOST_FAILURES = 10

OPEN = frozenset({"auth"})


class SimulatedCeph:
    """The manager. `password` is that of its one user."""

    def __init__(
        self, cluster: SimulatedCluster, faults: Faults, clock: Clock, *, password: str
    ) -> None:
        self.cluster = cluster
        self._faults, self._clock, self._password = faults, clock, password
        self._tokens: dict[str, float] = {}
        self._failures = 0
        self._stopping = asyncio.Event()
        self.calls: list[str] = []
        """Every call that came in, for tests that count them."""

    def routes(self) -> list[web.RouteDef]:
        return [web.route("*", f"{PATH}/api/{{below:.*}}", self._serve)]

    def stop(self) -> None:
        """Let go of whoever was told to hang."""
        self._stopping.set()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        below = request.match_info["below"]
        body = await request.read()
        call = f"ceph {request.method} {below}"
        self.calls.append(call)
        fault = self._faults.meet(call)
        if fault is None:
            return self._answer(request, below, body)
        return await _BEFALLS[fault.how](self, request, below, body, fault)

    def _answer(self, request: web.Request, below: str, body: bytes) -> web.Response:
        """Nothing in here waits, so no two calls mix."""
        try:
            route, named = finds(ROUTES, request.method, below)
            _versioned(request, route)
            if below not in OPEN:
                self._let_in(request)
            asked = Asked(named, dict(request.query), _read(body))
            if below == "auth":
                status, said = 201, self._sign_in(asked)
            elif below == "auth/logout":
                self._tokens.pop(_token(request), None)
                status, said = 200, {"redirect_url": "#/login"}
            else:
                status, said = route.status, route.answer(self.cluster, asked)
        except RefusedError as refusal:
            return web.json_response(refusal.said, status=refusal.status)
        if status == 204:
            return web.Response(status=204)
        media = f"application/vnd.ceph.api.v{route.version}+json"
        return web.Response(text=json.dumps(said), content_type=media, status=status)

    def _sign_in(self, asked: Asked) -> dict[str, Any]:
        """Ten wrong ones, and not even the right password opens any more."""
        right = (asked.body.get("username"), asked.body.get("password")) == (USER, self._password)
        if not right or self._failures >= MOST_FAILURES:
            self._failures += 1
            detail = {"detail": "Invalid credentials", "code": "invalid_credentials"}
            raise RefusedError(400, {**detail, "component": "auth"})
        self._failures = 0
        token = secrets.token_urlsafe(32)
        self._tokens[token] = self._clock.now() + TOKEN_SECONDS
        return {"token": token, "username": USER, "permissions": {}, "sso": False}

    def _let_in(self, request: web.Request) -> None:
        if self._tokens.get(_token(request), 0.0) < self._clock.now():
            raise RefusedError.plainly(
                401, "Unauthorized", "You are not authorized to access that resource"
            )

    def end_sessions(self) -> None:
        """No token is good any more."""
        self._tokens.clear()

    async def _refuse(
        self, _: web.Request, __: str, ___: bytes, fault: Fault
    ) -> web.StreamResponse:
        return web.json_response({"detail": fault.message, "code": "fault"}, status=fault.status)

    async def _slow(
        self, request: web.Request, below: str, body: bytes, fault: Fault
    ) -> web.StreamResponse:
        await self._clock.sleep(fault.seconds)
        return self._answer(request, below, body)

    async def _hang(self, request: web.Request, _: str, __: bytes, ___: Fault) -> web.Response:
        await self._stopping.wait()
        return _cut(request)

    async def _half(
        self, request: web.Request, below: str, body: bytes, _: Fault
    ) -> web.StreamResponse:
        self._answer(request, below, body)
        return _cut(request)

    async def _drop(self, request: web.Request, _: str, __: bytes, ___: Fault) -> web.Response:
        return _cut(request)


_Befalls = Callable[[SimulatedCeph, web.Request, str, bytes, Fault], Awaitable[web.StreamResponse]]

_BEFALLS: dict[How, _Befalls] = {
    How.REFUSE: SimulatedCeph._refuse,
    How.SLOW: SimulatedCeph._slow,
    How.HANG: SimulatedCeph._hang,
    How.HALF: SimulatedCeph._half,
    How.DROP: SimulatedCeph._drop,
    How.FAIL: SimulatedCeph._refuse,
    How.REBOOT: SimulatedCeph._drop,
    How.EXPIRE: SimulatedCeph._refuse,
    How.FLAP: SimulatedCeph._refuse,
}
"""How each fault goes on the wire, as at the region beside it."""


def _versioned(request: web.Request, route: Route) -> None:
    """A lower minor version of the same major one will do."""
    accept = request.headers.get("Accept", "")
    before, _, rest = accept.partition("application/vnd.ceph.api.v")
    wanted = rest.partition("+json")[0]
    if before or not wanted:
        raise RefusedError.plainly(
            415, "Unsupported Media Type", "Unable to find version in request header"
        )
    major, minor = _numbers(wanted)
    own_major, own_minor = _numbers(route.version)
    if major != own_major or minor > own_minor:
        said = f"Incorrect version: endpoint is '{route.version}', client requested '{wanted}'"
        raise RefusedError.plainly(415, "Unsupported Media Type", said)


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (-1, -1)


def _token(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _read(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise RefusedError.plainly(400, "Bad Request", "Invalid JSON document")
    return said


def _cut(request: web.Request) -> web.Response:
    """Close the connection so that the caller never learns what happened."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
