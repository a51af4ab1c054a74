"""How a domain error enters Temporal, and how a workflow reads it there again."""

from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from domain.errors import KINDS, DomainError, Failed, Failure, Overdue, Unavailable
from domain.operation import PAUSED, STALE, Cancelled

TRIED_AGAIN = frozenset({Unavailable.__name__})
"""The kinds that may pass. All others are final: another try would end the same way."""


def told(error: DomainError) -> ApplicationError:
    """The error as Temporal carries it: its kind as the type, the rest as details."""
    return ApplicationError(
        error.message,
        Failure.of(error).model_dump(),
        type=error.kind,
        non_retryable=error.kind not in TRIED_AGAIN,
    )


def understood(error: BaseException) -> Failure:
    """What went wrong in the domain's words: the first error of ours in Temporal's chain of causes,
    or else what is at its bottom."""
    if is_cancelled_exception(error):
        return Cancelled.by("its caller")
    cause: BaseException = error
    while not _is_ours(cause) and isinstance(cause, FailureError) and cause.cause is not None:
        cause = cause.cause
    if isinstance(cause, ApplicationError):
        if _is_ours(cause):
            return Failure.model_validate(cause.details[0])
        if kind := KINDS.get(cause.type or ""):
            return Failure.of(kind(cause.message))
        said = f"{cause.type}: {cause.message}"
        return Failure.of(Failed(said, reason="UNEXPECTED"))
    return Failure.of(Overdue(str(cause)))


def _is_ours(error: BaseException) -> bool:
    """Whether `told` made it."""
    details = error.details if isinstance(error, ApplicationError) else ()
    return bool(details) and isinstance(details[0], dict)


def held(error: BaseException) -> bool:
    """Whether a hand was refused because its operation is paused, or being called off: the step is
    taken later, or never."""
    return understood(error).reason == PAUSED


def pushed_aside(error: BaseException) -> bool:
    """Whether a hand was refused because its operation may no longer act: nobody's fault, and no
    reason to try another machine."""
    return understood(error).reason == STALE
