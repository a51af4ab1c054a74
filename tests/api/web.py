"""Those who call over HTTP/1.1: Connect and gRPC-Web, as their clients write them."""

import base64
import json
import struct
from typing import Any, NamedTuple
from urllib.parse import unquote

import grpc
import httpx2
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2  # type: ignore[import-untyped]

CODES = tuple(
    "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()
    for code in sorted(grpc.StatusCode, key=lambda code: int(code.value[0]))
)

HEAD = struct.Struct(">BI")


class Answer(NamedTuple):
    """What came back, whichever way it was asked."""

    code: str
    messages: list[Message]
    message: str = ""
    details: tuple[tuple[str, bytes], ...] = ()
    status: int = 200


def framed(raw: bytes) -> bytes:
    return HEAD.pack(0, len(raw)) + raw


def frames(body: bytes) -> list[tuple[int, bytes]]:
    found = []
    while body:
        flags, length = HEAD.unpack_from(body)
        found.append((flags, body[HEAD.size : HEAD.size + length]))
        assert len(found[-1][1]) == length
        body = body[HEAD.size + length :]
    return found


async def call(
    http: httpx2.AsyncClient, kind: str, method: Any, request: Message, **headers: str
) -> Answer:
    """Call a method, by its descriptor, in one of the ways there are."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    given = {"content-type": f"application/{kind}", **headers}
    answer = await http.post(path, content=body(kind, request), headers=given)
    return read(kind, answer, GetMessageClass(method.output_type))


def body(kind: str, request: Message) -> bytes:
    is_json = kind.endswith("json")
    raw = json_format.MessageToJson(request).encode() if is_json else request.SerializeToString()
    raw = raw if kind in ("json", "proto") else framed(raw)
    return base64.b64encode(raw) if "text" in kind else raw


def read(kind: str, answer: httpx2.Response, reply: type[Message]) -> Answer:
    def message(raw: bytes) -> Message:
        if kind.endswith("json"):
            return json_format.Parse(raw, reply())
        return reply.FromString(raw)

    raw = answer.content
    if kind in ("json", "proto"):
        if answer.status_code == 200:
            assert answer.headers["content-type"] == f"application/{kind}"
            return Answer("ok", [message(raw)])
        return complained(json.loads(raw), [])._replace(status=answer.status_code)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == f"application/{kind}"
    if "text" in kind:
        raw = b"".join(base64.b64decode(part) for part in pieces(raw))
    *rest, (flags, last) = frames(raw)
    messages = [message(each) for _, each in rest]
    if kind.startswith("connect"):
        assert flags == 2
        said = json.loads(last)
        return complained(said["error"], messages) if "error" in said else Answer("ok", messages)
    assert flags == 0x80
    trailers = dict(line.split(": ", 1) for line in last.decode().split("\r\n") if line)
    code = CODES[int(trailers["grpc-status"])]
    packed = trailers.get("grpc-status-details-bin", "")
    status = status_pb2.Status.FromString(base64.b64decode(packed + "=" * (-len(packed) % 4)))
    details = tuple((each.type_url.rpartition("/")[2], each.value) for each in status.details)
    return Answer(code, messages, unquote(trailers["grpc-message"]), details)


def pieces(text: bytes) -> list[bytes]:
    """What was encoded piece by piece, each with its padding."""
    found, begin = [], 0
    for end in range(4, len(text) + 1, 4):
        if text[end - 1 : end] == b"=" or end == len(text):
            found.append(text[begin:end])
            begin = end
    return found


def complained(error: dict[str, Any], messages: list[Message]) -> Answer:
    details = tuple(
        (each["type"], base64.b64decode(each["value"] + "=" * (-len(each["value"]) % 4)))
        for each in error.get("details", ())
    )
    return Answer(error["code"], messages, error.get("message", ""), details)
