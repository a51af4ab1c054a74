"""The edge contract over HTTP, as its first gateway had it: a path for each method that creates,
changes, deletes or shows, POSTs of JSON, streams as one document after the other.

Every call passes `api/door.py` as it does over gRPC."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from api.dialects import UNREADABLE
from api.door import Admit, Door, Service, anybody
from api.edge.words import plain, spelt
from api.errors import packed
from api.rest import JSON, NOT_JSON, Exchange, Refused, body_of, is_json, status_of
from domain.errors import Invalid, Unsupported

METHOD = re.compile(r"(Create|Update|Delete|Show)(\w+)")

VERBS = ("create", "update", "delete", "show")
"""Below these all paths are this gateway's: what it does not serve is not implemented."""

UNSERVED = frozenset({"ExecApi", "NotifyApi", "CloudletRefsApi", "ClusterRefsApi"})
"""What the first gateway had no paths for."""

MISSPELT = {"/delete/cloudlet": "/delete/cloudet"}
"""As it spelt them, beside what it meant."""

BODY_BYTES = 1024 * 1024
"""An app may bring its manifest along."""

Call = Callable[["Line", "Line"], Awaitable[Message | None]]


def routes(door: Door, services: Sequence[Service], admit: Admit = anybody) -> list[Route]:
    """Those of all services of the contract that are given."""
    found: list[Route] = []
    for service in services:
        for described in service.described.methods:
            path = path_of(service.described.name, described.name)
            if not path:
                continue
            streams = described.server_streaming
            answering: Any = door.several if streams else door.single
            call = answering(service, described, _reader(described.input_type), admit)
            resource = Resource(call, streams=streams)
            found += [Route(each, resource) for each in (path, MISSPELT.get(path)) if each]
    return [*found, *(Route(f"/{verb}/{{rest:path}}", Unimplemented()) for verb in VERBS)]


def path_of(service: str, method: str) -> str:
    """Where a method is found. Empty: nowhere."""
    named = METHOD.fullmatch(method)
    if named is None or service in UNSERVED:
        return ""
    return f"/{named[1]}/{named[2]}".lower()


class Resource:
    """A path. An ASGI application, since an endpoint that is a function would be given verbs by
    Starlette."""

    def __init__(self, call: Call, *, streams: bool) -> None:
        self._call = call
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        line = Line(request, send, streams=self._streams)
        try:
            reply = await self._call(line, line)
            if reply is not None:
                await line.write(reply)
        except Refused as refused:
            await line.refuse(refused)
        await line.end()


class Unimplemented:
    """What the contract does not have, by any verb. Clients of the first gateway know it by 501."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        line = Line(request, send, streams=False)
        refusal = Unsupported(
            f"nothing is served at {request.url.path}",
            reason="NO_SUCH_ROUTE",
            do="look for the path in the API's documentation",
        )
        await line.refuse(Refused(packed(refusal), grpc.StatusCode.UNIMPLEMENTED))
        await line.end()


class Line(Exchange):
    """A call by this gateway, and its answer."""

    def __init__(self, request: Request, send: Send, *, streams: bool) -> None:
        super().__init__(request)
        self.request = request
        self._send = send
        self._streams = streams
        self._begun = False

    async def write(self, message: Message) -> None:
        document = plain(message)
        await self._say(200, {"result": document} if self._streams else document)

    async def refuse(self, refused: Refused) -> None:
        """Say why not: instead of an answer, or behind what there was of one."""
        status = {"code": refused.status.code, "message": refused.status.message, "details": []}
        begun = self._begun
        await self._say(status_of(refused), {"error": status} if begun else status)

    async def end(self) -> None:
        await self._begin(200)
        await self._send({"type": "http.response.body", "body": b""})

    async def _say(self, code: int, document: Any) -> None:
        await self._begin(code)
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _begin(self, code: int) -> None:
        if self._begun:
            return
        self._begun = True
        headers = {**self.headers, "content-type": JSON, "x-content-type-options": "nosniff"}
        raw = [(k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()]
        await self._send({"type": "http.response.start", "status": code, "headers": raw})


def _reader(described: Any) -> Callable[[Line], Awaitable[Message]]:
    async def read(line: Line) -> Message:
        body = await body_of(line.request, BODY_BYTES)
        if body and _comes_from_a_page(line.request) and not is_json(line.request):
            raise Invalid(
                f"the body has to be {JSON} and to say so",
                reason=NOT_JSON,
                do=f"send the header content-type: {JSON}",
            )
        message: Message = GetMessageClass(described)()
        try:
            document = json.loads(body or b"{}")
            return json_format.ParseDict(spelt(document, described), message)
        except UNREADABLE as error:
            raise Invalid(
                f"the body cannot be read as {described.full_name}",
                reason="MALFORMED_REQUEST",
                do="send the fields that the contract has, by its names",
            ) from error

    return read


def _comes_from_a_page(request: Request) -> bool:
    """Whether a browser sends it. A form in a foreign page may be sent without asking, but never
    says that it is JSON; scripts say nothing, and are believed."""
    return any(name == "origin" or name.startswith("sec-fetch-") for name in request.headers)
