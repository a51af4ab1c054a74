"""How a call looks on HTTP/1.1 to those who cannot speak gRPC: Connect and gRPC-Web.

A dialect is chosen by the content type. Each says how a request's body becomes a message, how
messages and the end of a call are written, and which headers it has for both; the calls themselves
are none of its business. The protocols are described at connectrpc.com/docs/protocol and in gRPC's
doc/PROTOCOL-WEB.md."""

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2  # type: ignore[import-untyped]

from api.door import CODES, Trailers
from domain.errors import Invalid, Unsupported

PREFIX = struct.Struct(">BI")
"""Flags and length, before every message of a stream."""
COMPRESSED, LAST, TRAILERS = 0x01, 0x02, 0x80

PROTO_BYTES = 4 * 1024 * 1024
JSON_BYTES = 64 * 1024
"""JSON is read slowly, and nobody else is served meanwhile. What is larger has protobuf."""

LONGEST = timedelta(days=365)
UNITS = {
    "H": timedelta(hours=1),
    "M": timedelta(minutes=1),
    "S": timedelta(seconds=1),
    "m": timedelta(milliseconds=1),
    "u": timedelta(microseconds=1),
    "n": timedelta(microseconds=1) / 1000,
}


UNREADABLE = (
    *(DecodeError, json_format.Error, ValueError, TypeError, RecursionError),
    OverflowError,  # of a whole number that is too large for a field with a point
    SystemError,  # what the library says of a name with half a surrogate pair
)
"""All that reading a request can come to that is the caller's doing."""


class Codec(NamedTuple):
    """How a message is written down."""

    name: str
    most_bytes: int

    def read(self, raw: bytes, described: Any) -> Message:
        message: Message = GetMessageClass(described)()
        try:
            if self is JSON:
                document = json.loads(raw or b"{}")
                if not isinstance(document, dict):
                    raise TypeError("no object")
                json_format.ParseDict(document, message, ignore_unknown_fields=True)
            else:
                message.MergeFromString(raw)
        except UNREADABLE as error:
            raise malformed(f"the request cannot be read as {described.full_name}") from error
        return message

    def written(self, message: Message) -> bytes:
        if self is not JSON:
            return message.SerializeToString()
        document = json_format.MessageToDict(message)
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


JSON = Codec("json", JSON_BYTES)
PROTO = Codec("proto", PROTO_BYTES)


class Dialect(Protocol):
    content_type: str
    codec: Codec
    streams: bool | None
    """Whether it is for streams, or for single calls. None: for both."""
    encoding: str
    """The header that says how the request is compressed, which must be not at all."""

    def asked(self, body: bytes) -> bytes:
        """The one message in a request's body."""

    def said(self, message: Message) -> bytes:
        """A message of the answer."""

    def end(self, status: status_pb2.Status | None, trailers: Trailers) -> bytes:
        """The last of the answer. A status says what went wrong."""

    def head(self, trailers: Trailers) -> dict[str, str]:
        """What is in the headers already of what is told beside the answer."""


class ConnectSingle:
    """Connect, a single call: the body is the message, and the HTTP status says how it went."""

    streams: bool | None = False
    encoding = "content-encoding"

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.content_type = f"application/{codec.name}"

    def asked(self, body: bytes) -> bytes:
        return body

    def said(self, message: Message) -> bytes:
        return self.codec.written(message)

    def end(self, status: status_pb2.Status | None, trailers: Trailers) -> bytes:
        return b"" if status is None else json.dumps(complaint(status)).encode()

    def head(self, trailers: Trailers) -> dict[str, str]:
        return {f"trailer-{name}": said for name, said in trailers if isinstance(said, str)}


class ConnectStream:
    """Connect, a stream: every message in an envelope, and the last one says how it went."""

    streams: bool | None = True
    encoding = "connect-content-encoding"

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.content_type = f"application/connect+{codec.name}"

    def asked(self, body: bytes) -> bytes:
        return opened(body)

    def said(self, message: Message) -> bytes:
        return framed(0, self.codec.written(message))

    def end(self, status: status_pb2.Status | None, trailers: Trailers) -> bytes:
        told: dict[str, Any] = {
            "metadata": {name: [said] for name, said in trailers if isinstance(said, str)}
        }
        if status is not None:
            told["error"] = complaint(status)
        return framed(LAST, json.dumps(told).encode())

    def head(self, trailers: Trailers) -> dict[str, str]:
        return {}


class GrpcWeb:
    """gRPC-Web: gRPC's own frames, with the trailers as the last of them; as text, in base64."""

    streams: bool | None = None
    encoding = "grpc-encoding"

    def __init__(self, content_type: str, *, is_text: bool = False, codec: Codec = PROTO) -> None:
        self.codec = codec
        self.content_type = content_type
        self._is_text = is_text

    def asked(self, body: bytes) -> bytes:
        if self._is_text:
            try:
                body = base64.b64decode(body, validate=True)
            except (binascii.Error, ValueError) as error:
                raise malformed("the request is not base64") from error
        return opened(body)

    def said(self, message: Message) -> bytes:
        return self._sent(framed(0, self.codec.written(message)))

    def end(self, status: status_pb2.Status | None, trailers: Trailers) -> bytes:
        code, message = (status.code, status.message) if status is not None else (0, "")
        lines = [("grpc-status", str(code)), ("grpc-message", quote(message, safe=" !()*,:;='@/"))]
        for name, said in trailers:
            text = said if isinstance(said, str) else base64.b64encode(said).decode().rstrip("=")
            lines.append((name, " ".join(text.split())))
        return self._sent(framed(TRAILERS, "".join(f"{k}: {v}\r\n" for k, v in lines).encode()))

    def head(self, trailers: Trailers) -> dict[str, str]:
        return {}

    def _sent(self, frame: bytes) -> bytes:
        return base64.b64encode(frame) if self._is_text else frame


DIALECTS: Mapping[str, Dialect] = {
    dialect.content_type: dialect
    for dialect in (
        ConnectSingle(JSON),
        ConnectSingle(PROTO),
        ConnectStream(JSON),
        ConnectStream(PROTO),
        GrpcWeb("application/grpc-web"),
        GrpcWeb("application/grpc-web+proto"),
        GrpcWeb("application/grpc-web+json", codec=JSON),
        GrpcWeb("application/grpc-web-text", is_text=True),
        GrpcWeb("application/grpc-web-text+proto", is_text=True),
    )
}


def framed(flags: int, raw: bytes) -> bytes:
    return PREFIX.pack(flags, len(raw)) + raw


def opened(body: bytes) -> bytes:
    """The one message in an envelope."""
    if len(body) < PREFIX.size:
        raise malformed("the request is no message in an envelope")
    flags, length = PREFIX.unpack_from(body)
    if flags & COMPRESSED:
        raise compressed()
    if flags or len(body) != PREFIX.size + length:
        raise malformed("the request is not exactly one message in an envelope")
    return body[PREFIX.size :]


def complaint(status: status_pb2.Status) -> dict[str, Any]:
    """An error as Connect writes it."""
    code = CODES[status.code]
    name = "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()
    details = [
        {
            "type": detail.type_url.rpartition("/")[2],
            "value": base64.b64encode(detail.value).decode().rstrip("="),
        }
        for detail in status.details
    ]
    return {"code": name, "message": status.message, "details": details}


def time_left(headers: Mapping[str, str]) -> float | None:
    """How many seconds the caller gives the call. None: as long as it takes."""
    if said := headers.get("connect-timeout-ms"):
        if said.isascii() and said.isdigit() and len(said) <= 10:
            return min(timedelta(milliseconds=int(said)), LONGEST).total_seconds()
        raise malformed("connect-timeout-ms is no number of milliseconds")
    if said := headers.get("grpc-timeout"):
        amount, unit = said[:-1], UNITS.get(said[-1])
        if unit and amount.isascii() and amount.isdigit() and len(amount) <= 8:
            return min(int(amount) * unit, LONGEST).total_seconds()
        raise malformed("grpc-timeout is no number with one of H, M, S, m, u and n")
    return None


def malformed(what: str) -> Invalid:
    return Invalid(
        what,
        reason="MALFORMED_REQUEST",
        do="send the message that the contract says, in the form that content-type names",
    )


def compressed() -> Unsupported:
    return Unsupported(
        "compressed requests are not read here",
        reason="ENCODING_NOT_SUPPORTED",
        do="send the request as it is; it may have 4 MiB",
    )
