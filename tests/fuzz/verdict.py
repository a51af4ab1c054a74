"""What an answer comes to: one of ours, or a bug."""

import base64
import json
import re
from typing import Any, NamedTuple

import grpc
import grpc.aio
import httpx2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from domain.refusal import Refusal
from tests.api.web import frames, pieces

BY_DESIGN: dict[str, str] = {
    "ENCODING_NOT_SUPPORTED": "requests are taken as they are, and not compressed",
    "STORAGE_UNSEEN": "no worker runs here that would look at Ceph",
    "CLOUDLET_NOT_READY": "no resource manager is connected",
    "EXEC_NOBODY": "no resource manager is connected that would run a command",
    "FLAVOR_UPDATE": "the first controller had no such updates, and clients know its words",
    "CLUSTER_UPDATE": "likewise",
    "APPINST_UPDATE": "likewise",
    "CLOUDLET_IPS_STATIC": "likewise",
}
"""Why what is no fault of the caller's is none of ours either, by the reason that is told. It
is UNAVAILABLE or UNIMPLEMENTED then, 503 or 501 over HTTP; with another reason these are bugs."""

BUGS = ("UNKNOWN", "INTERNAL", "DATA_LOSS")
EXPLAINED = ("UNAVAILABLE", "UNIMPLEMENTED")
OVER = "DEADLINE_EXCEEDED"
"""No bug where the caller gave it little time."""

BUG = b"the log has it under request"
"""What is said of a bug, also in the middle of a stream."""

IN_HTTP = {500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: OVER}

WORDS = {
    each.name: re.compile(re.sub(r"\\\{\w+\\\}", ".*", re.escape(each.text)), re.DOTALL)
    for each in Refusal
}
"""Of each refusal at the edge, with anything where it names something."""

FIRST_WORDS = {each.name: words for each in Refusal if (words := each.text.partition("{")[0])}
"""What is left of them, at the least, where what they name was too long."""

CUT = "…"

CODES = {int(code.value[0]): code.name for code in grpc.StatusCode}


class Verdict(NamedTuple):
    code: str
    """Its name in gRPC, or the status of HTTP where that says no more."""
    reason: str = ""
    bug: bool = False

    @property
    def said(self) -> str:
        return f"{self.code} {self.reason}".strip()

    def is_bug(self, *, bounded: bool) -> bool:
        if self.code == OVER:
            return not bounded
        unexplained = self.code in EXPLAINED and self.reason not in BY_DESIGN
        return self.bug or self.code in BUGS or unexplained


CUT_SHORT = "Internal error from Core"
"""The client's own words: its time was up while it still wrote."""


def natively(error: grpc.aio.AioRpcError) -> Verdict:
    if error.details() == CUT_SHORT:
        return Verdict(OVER)
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    return Verdict(error.code().name, _reason(packed) or (error.details() or "")[:100])


def over_http(answer: httpx2.Response) -> Verdict:
    """Streams end with 200 whatever became of them, and say it in their last part."""
    raw, status = answer.content, answer.status_code
    if BUG in raw:
        return Verdict("INTERNAL", bug=True)
    kind = answer.headers.get("content-type", "")
    if status == 200 and "grpc-web" in kind:
        if "text" in kind:
            raw = b"".join(base64.b64decode(part) for part in pieces(raw))
        trailers = dict(line.split(": ", 1) for line in _last(raw).splitlines() if line)
        packed = base64.b64decode(trailers.get("grpc-status-details-bin", "") + "==")
        return Verdict(CODES[int(trailers["grpc-status"])], _reason(packed))
    if status == 200 and "connect+" in kind:
        return _in_json(json.loads(_last(raw)).get("error", {}), "OK")
    if status < 500:
        return Verdict(str(status))
    try:
        return _in_json(json.loads(raw), IN_HTTP.get(status, "INTERNAL"))
    except ValueError:
        return Verdict(f"{status}", bug=True)


def _last(raw: bytes) -> str:
    """The envelope that says how a stream ended."""
    return frames(raw)[-1][1].decode()


def _in_json(error: dict[str, Any], otherwise: str) -> Verdict:
    code = error.get("code", otherwise)
    reasons = [
        each.get("reason") or _info(each)
        for each in error.get("details", ())
        if "ErrorInfo" in str(each.get("@type", each.get("type", "")))
    ]
    name = CODES[code] if isinstance(code, int) else str(code).upper()
    return Verdict(name, reasons[0] if reasons else _worded(str(error.get("message", ""))))


def _worded(message: str) -> str:
    """The reason of a refusal at the edge, where nothing but its words are told."""
    fitting = [name for name, words in WORDS.items() if words.fullmatch(message)]
    if message.endswith(CUT):
        fitting = [name for name, words in FIRST_WORDS.items() if message.startswith(words)]
    known = [name for name in fitting if name in BY_DESIGN]
    return next(iter((*known, *fitting)), message[:100])


def _info(detail: dict[str, Any]) -> str:
    raw = base64.b64decode(str(detail.get("value", "")) + "==")
    return str(error_details_pb2.ErrorInfo.FromString(raw).reason)


def _reason(packed: bytes) -> str:
    for detail in status_pb2.Status.FromString(packed).details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            return str(error_details_pb2.ErrorInfo.FromString(detail.value).reason)
    return ""
