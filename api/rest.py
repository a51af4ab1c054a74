"""Methods over HTTP: a route for each, and JSON both ways.

POST and PUT carry the request as their body, GET and DELETE in their query. Every call passes
`api/door.py` as it does over gRPC: handlers, ids, limits, errors and meters are the same."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, Never, TypeAlias

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api import documents
from api.door import DETAILS, Admit, Door, Line, Service, Trailers, anybody
from api.errors import RETRY_SECONDS, packed
from domain.errors import Invalid, NotFound, Unsupported

Answering: TypeAlias = Callable[[Request, Line], Awaitable[Message]]

JSON = "application/json"
BODY_BYTES = 64 * 1024
"""JSON is read slowly, and nobody else is served meanwhile. What is larger has gRPC."""

TOO_LARGE = "REQUEST_TOO_LARGE"
NOT_JSON = "CONTENT_TYPE_NOT_JSON"

STATUSES: dict[grpc.StatusCode, int] = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
}
"""What a code is called in HTTP, as google.rpc.Code says."""

OWN_STATUSES = {TOO_LARGE: 413, NOT_JSON: 415}
"""What only HTTP knows has a word of its own there, by its reason."""


class Route(NamedTuple):
    """Where a method is found."""

    verb: str
    path: str

    @property
    def has_body(self) -> bool:
        """Whether the request comes as the body. Else it is in the query."""
        return self.verb in {"POST", "PUT"}


class Refused(Exception):  # noqa: N818 - it is an answer
    """The call ends with this status instead of a reply."""

    def __init__(self, status: status_pb2.Status, code: grpc.StatusCode) -> None:
        super().__init__(status.message)
        self.status = status
        self.code = code


class Exchange:
    """A request over HTTP, and what is told beside its answer: as much of a gRPC context as the
    door and the handlers make use of. Headers are its metadata."""

    def __init__(self, request: Request) -> None:
        self._given = request.headers.items()
        self._client = request.client
        self._code = grpc.StatusCode.OK
        self._told: Trailers = ()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer. It may hold a kubeconfig, so nobody on the way keeps it."""
        told = {name: value for name, value in self._told if isinstance(value, str)}
        return {**told, "cache-control": "no-store"}

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return self._given

    def auth_context(self) -> dict[str, object]:
        return {}  # certificates are looked at by the gRPC door alone

    def peer(self) -> str:
        if self._client is None:
            return ""
        host, port = self._client  # told as gRPC does
        return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def set_trailing_metadata(self, trailers: Trailers, /) -> None:
        self._told = trailers

    def code(self) -> grpc.StatusCode:
        return self._code

    async def abort(self, code: grpc.StatusCode, message: str, trailers: Trailers, /) -> Never:
        self._code, self._told = code, trailers
        raise Refused(status_pb2.Status.FromString(dict(trailers)[DETAILS]), code)


class Resource:
    """A path, and the method behind each verb that it knows. An ASGI application, since an endpoint
    that is a function would be given verbs by Starlette."""

    def __init__(self, answers: Mapping[str, Answering]) -> None:
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answering = self._answers.get(request.method)
        if answering is None:
            raise HTTPException(405, headers={"Allow": ", ".join(self._answers)})
        exchange = Exchange(request)
        try:
            body = documents.written(await answering(request, exchange))
            answer = Response(body, headers=exchange.headers, media_type=JSON)
        except Refused as refused:
            answer = _refusal(refused, exchange.headers)
        await answer(scope, receive, send)


def resources(
    door: Door, service: Service, routes: Mapping[str, Route], admit: Admit = anybody
) -> list[routing.Route]:
    """A service over HTTP. A method without a route is an error now."""
    paths: dict[str, dict[str, Answering]] = {}
    for described in service.described.methods:
        route = routes[described.name]
        read = _reader(route, described.input_type)
        paths.setdefault(route.path, {})[route.verb] = door.single(service, described, read, admit)
    return [routing.Route(path, Resource(answers)) for path, answers in paths.items()]


async def unrouted(request: Request, error: Exception) -> Response:
    """The answer where there is no method: to another path, or to another verb."""
    if not isinstance(error, HTTPException):
        raise error
    headers, path = dict(error.headers or {}), request.url.path
    if "Allow" in headers:
        wrong = Unsupported(
            f"{request.method} is not served at {path}",
            reason="METHOD_NOT_ALLOWED",
            do=f"use one of {headers['Allow']}",
        )
        return _document(packed(wrong), error.status_code, headers)
    lost = NotFound(
        f"nothing is served at {path}",
        reason="NO_SUCH_ROUTE",
        do="look for the route in the API's documentation",
    )
    return _document(packed(lost), error.status_code, headers)


def _reader(route: Route, described: Any) -> Callable[[Request], Awaitable[Message]]:
    async def from_body(request: Request) -> Message:
        if request.query_params:
            named = next(iter(request.query_params))
            raise Invalid(
                f"{named}: a {route.verb} takes no query",
                reason="MALFORMED_REQUEST",
                do="send the request as the body",
            )
        body = await body_of(request)
        if body and not is_json(request):
            raise Invalid(
                f"the body has to be {JSON} and to say so",
                reason=NOT_JSON,
                do=f"send the header content-type: {JSON}",
            )
        return documents.read(body, described)

    async def from_query(request: Request) -> Message:
        return documents.asked(request.query_params.multi_items(), described)

    return from_body if route.has_body else from_query


async def body_of(request: Request, most_bytes: int = BODY_BYTES) -> bytes:
    """What a request carries, whole, if it is not too long."""
    body = bytearray()
    try:
        async with aclosing(request.stream()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > most_bytes:
                    raise Invalid(
                        f"the body is longer than {most_bytes} bytes",
                        reason=TOO_LARGE,
                        do="ask for less at once, or ask over gRPC",
                    )
    except ClientDisconnect as error:  # nobody is left to hear it, but it is counted
        raise Invalid("the caller hung up within the body", reason="MALFORMED_REQUEST") from error
    return bytes(body)


def is_json(request: Request) -> bool:
    """Whether the body says of itself what it is. Forms in foreign pages cannot say that, so they
    can change nothing here."""
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    return kind.strip().lower() == JSON


def status_of(refused: Refused) -> int:
    """The status of an answer that is a refusal."""
    info = error_details_pb2.ErrorInfo.FromString(refused.status.details[0].value)
    return OWN_STATUSES.get(info.reason, STATUSES[refused.code])


def _refusal(refused: Refused, headers: dict[str, str]) -> Response:
    status = status_of(refused)
    if refused.code is grpc.StatusCode.UNAVAILABLE:
        headers = {**headers, "retry-after": str(RETRY_SECONDS)}
    return _document(refused.status, status, headers)


def _document(status: status_pb2.Status, code: int, headers: dict[str, str]) -> Response:
    return Response(documents.written(status), code, headers, JSON)
