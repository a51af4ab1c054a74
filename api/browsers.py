"""Every method, to browsers and whoever else has HTTP/1.1 alone: Connect and gRPC-Web.

A method is at `/<package.Service>/<Method>`, and the same below `/api`, where the pages of the koor
contract look for it. Every call passes `api/door.py` as it does over gRPC. Single calls and streams
of answers are served; streams of requests need gRPC.

A page in a browser of somebody who may call us can make that browser call us. Pages of the origins
that are listed may; others may not, so that a door which is open to this machine is not open to
every page that is looked at on it. That holds for every path that is served. Single methods may be
served at a path of their own besides, to pages of other origins (`Alias`)."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from google.protobuf.message import Message
from google.rpc import status_pb2  # type: ignore[import-untyped]
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from api.dialects import DIALECTS, ConnectSingle, Dialect, compressed, time_left
from api.door import CODES, DETAILS, Admit, Door, Service, anybody
from api.errors import packed
from api.rest import STATUSES, Exchange, Refused, body_of
from domain.errors import DomainError, Forbidden, Overdue

PREFIXES = ("", "/api")

SAID = ", ".join(
    (
        *("authorization", "content-type", "connect-protocol-version", "connect-timeout-ms"),
        *("grpc-timeout", "x-grpc-web", "x-user-agent", "x-request-id", "idempotency-key"),
        *("x-namespace", "authorization-extras"),  # what the web page of Temporal says besides
        *("windlass-force", "windlass-approve-each", "windlass-storage", "windlass-data"),
        "windlass-ceph",
    )
)
"""The headers that pages may send."""
TOLD = ", ".join(
    (
        *("grpc-status", "grpc-message", "grpc-status-details-bin"),
        *("trailer-x-request-id", "trailer-windlass-operation", "trailer-windlass-why"),
        *("trailer-windlass-observed-at", "trailer-windlass-source", "trailer-windlass-incomplete"),
    )
)
"""The headers that pages may read."""
PREFLIGHT_SECONDS = 7200


class Policy(NamedTuple):
    """Which pages may call us."""

    origins: frozenset[str] = frozenset()
    is_open: bool = False
    """Whether calls need no token: then the name that is called has to be one of ours."""
    hosts: frozenset[str] = frozenset()
    """Names by which this API is called besides, such as that of a proxy, with or without port."""

    def allows(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may call. None is sent by what is no page."""
        if not origin or origin in self.origins:
            return True
        try:
            page = urlsplit(origin)
        except ValueError:  # no address at all
            return False
        if page.netloc and self._is_listed(page.netloc):
            return True
        return page.netloc == host and (not self.is_open or self._is_ours(page.hostname))

    def is_meant(self, host: str) -> bool:
        """Whether a call means us by this name. A page can have a name of its own lead here, and
        is asked for no origin then. An address is no such name."""
        if not self.is_open or not host:  # browsers always send it
            return True
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        listed = any(urlsplit(each).netloc == host for each in self.origins)
        return listed or self._is_listed(host) or self._is_ours(name)

    def _is_listed(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return host.lower() in self.hosts or (name or "") in self.hosts

    def _is_ours(self, name: str | None) -> bool:
        return name == LOCALHOST or _is_address(name or "")


LOCALHOST = "localhost"

NO_NAME_OF_OURS = "this is no name of the API: WINDLASS_HOSTS lists its names"
NO_PAGE_OF_OURS = "pages of this origin may not call: WINDLASS_CORS_ORIGINS lists those that may"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Alias(NamedTuple):
    """A method at a path of its own, for those who look for it there."""

    path: str
    method: str
    policy: Policy
    most_bytes: int
    """How long a request may be there, even as JSON."""


class _Method(NamedTuple):
    policy: Policy
    streams: bool
    call: Callable[["Line", "Line"], Awaitable[Message | None]]


class Browsers:
    """An ASGI application around another, which gets what is not a method of ours."""

    def __init__(
        self,
        door: Door,
        services: Sequence[Service],
        admit: Admit = anybody,
        policy: Policy | None = None,
        aliases: Sequence[Alias] = (),
    ) -> None:
        self._policy = policy or Policy()
        others = {alias.method: alias for alias in aliases}
        self._methods: dict[str, _Method] = {}
        for service in services:
            for described in service.described.methods:
                if described.client_streaming:
                    continue
                streams = described.server_streaming
                answering = door.several if streams else door.single
                call = answering(service, described, _reader(described), admit)
                name = f"{service.name}/{described.name}"
                for prefix in PREFIXES:
                    self._methods[f"{prefix}/{name}"] = _Method(self._policy, streams, call)
                if alias := others.pop(name, None):
                    read = _reader(described, alias.most_bytes)
                    call = answering(service, described, read, admit)
                    self._methods[alias.path] = _Method(alias.policy, streams, call)
        if others:
            raise LookupError(f"nobody serves {', '.join(others)}")

    def around(self, app: ASGIApp) -> ASGIApp:
        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin", "")
            method = self._methods.get(scope["path"])
            if not self._policy.is_meant(host):
                await _refuse(send, NO_NAME_OF_OURS)
            elif method is not None:
                await self._serve(method, scope, receive, send)
            elif not self._policy.allows(origin, host):
                await _refuse(send, NO_PAGE_OF_OURS)
            else:
                await app(scope, receive, send)

        return served

    async def _serve(self, method: _Method, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        allowed = method.policy.allows(origin, host)
        shared = {"vary": "origin"}
        if origin and allowed:
            shared |= {
                "access-control-allow-origin": origin,
                "access-control-expose-headers": TOLD,
            }
        if request.method == "OPTIONS":
            await _answer(send, 204 if allowed else 403, _preflight(shared) if allowed else shared)
            return
        if request.method != "POST":
            await _answer(send, 405, {**shared, "allow": "POST, OPTIONS"})
            return
        kind, _, _ = request.headers.get("content-type", "").partition(";")
        dialect = DIALECTS.get(kind.strip().lower())
        if dialect is None or dialect.streams not in (None, method.streams):
            fitting = (each for each in DIALECTS.values() if each.streams in (None, method.streams))
            accepted = ", ".join(each.content_type for each in fitting)
            await _answer(send, 415, {**shared, "accept-post": accepted})
            return
        line = Line(request, dialect, send, shared)
        await line.end(await _outcome(method, request, line, allowed=allowed))


async def _outcome(
    method: _Method, request: Request, line: "Line", *, allowed: bool
) -> status_pb2.Status | None:
    """Make the call, and say what went wrong, if anything did."""
    try:
        if not allowed:
            raise Forbidden(
                "pages of this origin may not call",
                reason="ORIGIN_NOT_ALLOWED",
                do="have it listed in WINDLASS_CORS_ORIGINS",
            )
        if request.headers.get(line.dialect.encoding, "identity") != "identity":
            raise compressed()
        async with asyncio.timeout(line.give(time_left(request.headers))):
            reply = await _attended(method.call(line, line), line)
            if reply is not None:
                await line.write(reply)
    except Refused as refused:
        return refused.status
    except TimeoutError:
        return packed(Overdue("the call took longer than the caller gave it"))
    except DomainError as error:
        return packed(error)
    return None


async def _attended(call: Awaitable[Message | None], line: "Line") -> Message | None:
    """Wait for a call, and cancel it when nobody waits for its answer any more."""

    async def hung_up() -> None:
        await line.heard.wait()
        while (await line.request.receive())["type"] != "http.disconnect":
            pass

    work, gone = asyncio.ensure_future(call), asyncio.create_task(hung_up())
    try:
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # counts as heard: whoever waits may have been cut off meanwhile
    if work.cancelled():
        raise Overdue("nobody waits for the answer any more")
    return work.result()


class Line(Exchange):
    """A call of one of these dialects, as the door and handlers see it, and its answer."""

    def __init__(
        self, request: Request, dialect: Dialect, send: Send, shared: dict[str, str]
    ) -> None:
        super().__init__(request)
        self.request = request
        self._until: float | None = None
        self.dialect = dialect
        self.heard = asyncio.Event()
        """The request has been read to its end."""
        self._send = send
        self._shared = shared
        self._begun = False
        self._first: bytes | None = None

    def give(self, seconds: float | None) -> float | None:
        """Note how long the call may take."""
        if seconds is not None:
            self._until = asyncio.get_running_loop().time() + seconds
        return seconds

    def time_remaining(self) -> float | None:
        return None if self._until is None else self._until - asyncio.get_running_loop().time()

    async def send_initial_metadata(self, metadata: Sequence[tuple[str, str]]) -> None:
        self._shared |= dict(metadata)

    async def write(self, message: Message) -> None:
        """Send a message. That of a single call waits for how it ends, which is in the headers."""
        said = self.dialect.said(message)
        if isinstance(self.dialect, ConnectSingle):
            self._first = said
        else:
            await self._begin(200)
            await self._send({"type": "http.response.body", "body": said, "more_body": True})

    async def end(self, status: status_pb2.Status | None) -> None:
        told = self._told
        if status is not None and DETAILS not in dict(told):
            told = (*told, (DETAILS, status.SerializeToString()))
        last, code = self.dialect.end(status, told), 200
        content = self.dialect.content_type
        if isinstance(self.dialect, ConnectSingle):
            self._shared |= self.dialect.head(told)
            last = self._first if status is None and self._first is not None else last
            if status is not None:
                code, content = STATUSES[CODES[status.code]], "application/json"
        await self._begin(code, content)
        await self._send({"type": "http.response.body", "body": last})

    async def _begin(self, code: int, content: str = "") -> None:
        if not self._begun:
            self._begun = True
            told = {"content-type": content or self.dialect.content_type, **self._shared}
            await _start(self._send, code, told)


def _reader(described: Any, at_least: int = 0) -> Callable[["Line"], Awaitable[Message]]:
    """What reads requests, of whatever length the dialect or the path allows."""

    async def read(line: Line) -> Message:
        body = await body_of(line.request, max(line.dialect.codec.most_bytes, at_least))
        line.heard.set()
        return line.dialect.codec.read(line.dialect.asked(body), described.input_type)

    return read


def _preflight(shared: dict[str, str]) -> dict[str, str]:
    return {
        **shared,
        "access-control-allow-methods": "POST",
        "access-control-allow-headers": SAID,
        "access-control-max-age": str(PREFLIGHT_SECONDS),
    }


async def _answer(send: Send, code: int, headers: dict[str, str]) -> None:
    await _start(send, code, {**headers, "content-length": "0"})
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, code: int, headers: dict[str, str]) -> None:
    """Begin an answer. It may hold secrets, so nobody on the way keeps it."""
    told = {**headers, "cache-control": "no-store", "x-content-type-options": "nosniff"}
    raw = [(k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in told.items()]
    await send({"type": "http.response.start", "status": code, "headers": raw})


async def _refuse(send: Send, why: str) -> None:
    await _start(send, 403, {"content-type": "text/plain; charset=utf-8"})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
