"""How a domain error enters Temporal, and how a workflow reads it there again."""

from datetime import timedelta

from temporalio.activity import Info
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from domain.errors import KINDS, DomainError, Failed, Failure, Overdue, Unavailable
from domain.operation import PAUSED, STALE, Cancelled

TRIED_AGAIN = frozenset({Unavailable.__name__})
"""The kinds that may pass. All others are final: another try would end the same way."""

AWAY = frozenset({"MAAS_DOWN", "DATABASE_UNAVAILABLE", "DISK_FULL", "READ_ONLY"})
"""Reasons by which what a step needs is not there at all. A refusal is none of them."""

LONGEST_PAUSE_SECONDS = 30.0
"""Between two tries of what is away, where tries are not counted."""


def soon(error: DomainError, info: Info) -> timedelta | None:
    """How long a step pauses whose dependency is away: never as long as one that is refused, so
    that it goes on soon after that is back. None: as its policy says, which it does where tries
    are counted, or they would be used up sooner."""
    policy = info.retry_policy
    if info.is_local or policy is None or policy.maximum_attempts or error.reason not in AWAY:
        return None
    usual = policy.initial_interval.total_seconds() * 2 ** min(info.attempt - 1, 20)
    most = policy.maximum_interval.total_seconds() if policy.maximum_interval else usual
    return timedelta(seconds=min(usual, most, LONGEST_PAUSE_SECONDS))


def told(error: DomainError, pause: timedelta | None = None) -> ApplicationError:
    """The error as Temporal carries it: its kind as the type, the rest as details. `pause`: how
    long to wait for the next try, where the step's policy does not say it."""
    return ApplicationError(
        error.message,
        Failure.of(error).model_dump(),
        type=error.kind,
        non_retryable=error.kind not in TRIED_AGAIN,
        next_retry_delay=pause,
    )


def never_final(error: DomainError, subject: str) -> Unavailable:
    """The same, to be tried again whatever it is. What may pass keeps its reason: by that the next
    try comes soon."""
    reason = error.reason if isinstance(error, Unavailable) else ""
    return Unavailable(error.message, subject=subject, reason=reason)


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
