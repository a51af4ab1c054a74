"""How an error leaves through the gRPC door: one table of codes, one place that packs details.

A reply's trailers must fit what clients accept (8 KiB by default; a client that gets more reports
RESOURCE_EXHAUSTED and loses ours), so whatever a caller can make long is cut here."""

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from domain.errors import (
    AlreadyExists,
    Conflict,
    DomainError,
    Exhausted,
    Failed,
    Failure,
    Forbidden,
    Invalid,
    NotFound,
    Overdue,
    Unauthenticated,
    Unavailable,
    Unsupported,
    Violation,
)

DOMAIN = "windlass"

CODES: dict[type[DomainError], grpc.StatusCode] = {
    Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    Conflict: grpc.StatusCode.FAILED_PRECONDITION,
    Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unsupported: grpc.StatusCode.UNIMPLEMENTED,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    Failed: grpc.StatusCode.ABORTED,
    Overdue: grpc.StatusCode.DEADLINE_EXCEEDED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
}
"""The status of every kind of error. Whatever is not in here is a bug, and INTERNAL."""

MESSAGE_BYTES = 600
FACT_BYTES = 200
FACTS = 6
VIOLATION_BYTES = 250
VIOLATIONS_BYTES = 1500
RETRY_SECONDS = 1


def wrong(field: str, description: str) -> Invalid:
    """A request of which one field is wrong."""
    violation = Violation(field=field, description=description)
    return Invalid(f"{field}: {description}", violations=[violation])


def number(code: grpc.StatusCode) -> int:
    """The code as it stands in a google.rpc.Status."""
    value: tuple[int, str] = code.value
    return value[0]


def code_of(failure: Failure) -> grpc.StatusCode:
    """The status that a caller would have been given, had it been on the line."""
    if failure.kind == "Cancelled":
        return grpc.StatusCode.CANCELLED
    return CODES[type(failure.error())]


def packed(error: DomainError) -> status_pb2.Status:
    """The error as callers get it: its code and words, exactly one ErrorInfo, a BadRequest if
    fields are wrong, and a RetryInfo if trying again may help."""
    status = status_pb2.Status(
        code=number(CODES[type(error)]), message=_cut(error.message, MESSAGE_BYTES)
    )
    facts = {**error.facts, "do": error.do} if error.do else error.facts
    _inform(status, error.reason, facts)
    if isinstance(error, Invalid) and error.violations:
        status.details.add().Pack(
            error_details_pb2.BadRequest(field_violations=_fitting(error.violations))
        )
    if seconds := retry_seconds(error):
        delay = Duration(seconds=seconds)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def retry_seconds(error: DomainError) -> int:
    """After how long the same call may work. 0: nobody can say."""
    if isinstance(error, Unavailable):
        return RETRY_SECONDS
    return error.retry_seconds if isinstance(error, Exhausted) else 0


def packed_failure(failure: Failure) -> status_pb2.Status:
    """What an operation ended with, as its caller would have been told."""
    status = status_pb2.Status(code=number(code_of(failure)), message=failure.message)
    _inform(status, failure.reason or Failed.usual_reason, {})
    return status


def packed_bug(request_id: str) -> status_pb2.Status:
    """What a caller gets of an error that is not ours to explain: where the log has it."""
    status = status_pb2.Status(
        code=number(grpc.StatusCode.INTERNAL),
        message=f"internal error; the log has it under request {request_id}",
    )
    _inform(status, DomainError.usual_reason, {"request": request_id})
    return status


def _inform(status: status_pb2.Status, reason: str, facts: dict[str, str]) -> None:
    some = list(facts.items())[-FACTS:]
    info = error_details_pb2.ErrorInfo(
        reason=reason, domain=DOMAIN, metadata={key: _cut(fact, FACT_BYTES) for key, fact in some}
    )
    status.details.add().Pack(info)


def _fitting(
    violations: tuple[Violation, ...],
) -> list[error_details_pb2.BadRequest.FieldViolation]:
    """As many violations as fit, and how many did not."""
    fields: list[error_details_pb2.BadRequest.FieldViolation] = []
    left = VIOLATIONS_BYTES
    for violation in violations:
        field = error_details_pb2.BadRequest.FieldViolation(
            field=violation.field, description=_cut(violation.description, VIOLATION_BYTES)
        )
        left -= field.ByteSize()
        if left < 0:
            more = f"and {len(violations) - len(fields)} more that do not fit into the reply"
            fields.append(error_details_pb2.BadRequest.FieldViolation(description=more))
            break
        fields.append(field)
    return fields


def _cut(text: str, most: int) -> str:
    raw = text.encode(errors="replace")
    return text if len(raw) <= most else raw[:most].decode(errors="ignore") + "…"
