"""What a command says when it did not work, and the number it leaves behind."""

import sys
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from cli.printing import tame

if TYPE_CHECKING:
    import grpc.aio


class Code(IntEnum):
    """Exit codes. Scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    TIMED_OUT = 124
    INTERRUPTED = 130


CODES = {
    "INVALID_ARGUMENT": Code.USAGE,
    "NOT_FOUND": Code.NOT_FOUND,
    "ALREADY_EXISTS": Code.REFUSED,
    "FAILED_PRECONDITION": Code.REFUSED,
    "ABORTED": Code.REFUSED,
    "RESOURCE_EXHAUSTED": Code.REFUSED,
    "PERMISSION_DENIED": Code.REFUSED,
    "UNAUTHENTICATED": Code.REFUSED,
    "DEADLINE_EXCEEDED": Code.TIMED_OUT,
}
"""By the name of the gRPC status. Every other status is FAILED."""

USUALLY = {
    "INTERNAL": "look for the request in the server's log",
    "UNIMPLEMENTED": "windlass doctor compares the versions here and there",
}
"""What to do about a status, if the server has no better idea."""

OWN_PLACE = frozenset({"do", "operation", "request"})
"""Facts of an error that have a place of their own in its text."""


class Complaint(Exception):  # noqa: N818 - it is what the user reads, not an error of ours
    """A command did not work, in words for its user."""

    def __init__(
        self,
        message: str,
        code: Code = Code.FAILED,
        *,
        reason: str = "",
        lines: Iterable[str] = (),
        do: str = "",
        operation: str = "",
        request: str = "",
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.reason = message, code, reason
        self.lines, self.do = list(lines), do
        self.operation, self.request = operation, request

    def text(self) -> str:
        """What went wrong, what is known of it, what to do, and where to look, in this order."""
        ids = [
            f"{title}: {tame(value)}"
            for title, value in (("op", self.operation), ("request", self.request))
            if value
        ]
        return "\n  ".join(
            [
                f"error: {tame(self.message)}"
                + (f" (REASON {self.reason})" if self.reason else ""),
                *map(tame, self.lines),
                *([f"do: {tame(self.do)}"] if self.do else []),
                *(["  ".join(ids)] if ids else []),
            ]
        )


def explained(
    error: Exception, address: str, request: str = "", *, connected: bool = True
) -> Complaint:
    """Any error as a complaint. One that is a bug of ours says so, and how to see more of it."""
    if isinstance(error, Complaint):
        error.request = error.request or request
        return error
    if "grpc" in sys.modules:
        import grpc

        if isinstance(error, grpc.aio.AioRpcError):
            return _answered(error, address, request, connected)
    return Complaint(
        f"unexpected {type(error).__name__}: {error}",
        do="repeat it with --debug and report what it shows",
        request=request,
    )


def unreachable(address: str) -> Complaint:
    return Complaint(
        f"cannot reach the server at {address}",
        Code.UNREACHABLE,
        do="start one with make up, name another with --address, or ask windlass doctor",
    )


def _answered(
    error: "grpc.aio.AioRpcError", address: str, request: str, connected: bool
) -> Complaint:
    """The answer of a server, or of gRPC in its place: only a server sends trailers."""
    status = error.code().name
    trailers = dict(error.trailing_metadata() or ())
    if not trailers and (
        status == "UNAVAILABLE" or (status == "DEADLINE_EXCEEDED" and not connected)
    ):
        return unreachable(address)
    reason, facts, lines = _details(trailers.get("grpc-status-details-bin", b""))
    shown = [f"{key}: {value}" for key, value in facts.items() if key not in OWN_PLACE and value]
    do = facts.get("do") or USUALLY.get(status, "")
    if status == "DEADLINE_EXCEEDED" and request and not do:
        do = f"it may have been accepted: repeat it with --request-id {request} to find out"
    message = error.details() or status
    return Complaint(
        message,
        CODES.get(status, Code.FAILED),
        reason=reason or status,
        lines=[line for line in (*lines, *shown) if line != message],
        do=do,
        operation=facts.get("operation", ""),
        request=facts.get("request") or _text(trailers.get("x-request-id", "")) or request,
    )


def _details(packed: str | bytes) -> tuple[str, dict[str, str], list[str]]:
    """Reason, facts and further lines out of google.rpc.Status. Unknown details are passed over."""
    from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

    reason, facts, lines = "", {}, []
    info = error_details_pb2.ErrorInfo()
    fields = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status_pb2.Status.FromString(
        packed if isinstance(packed, bytes) else b""
    ).details:
        if detail.Unpack(info):
            reason, facts = info.reason, dict(info.metadata)
        elif detail.Unpack(fields):
            lines += [f"{wrong.field}: {wrong.description}" for wrong in fields.field_violations]
        elif detail.Unpack(retry):
            lines.append(f"retry: in {retry.retry_delay.ToTimedelta().total_seconds():g} s")
    return reason, facts, lines


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
