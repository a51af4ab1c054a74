"""What a workflow understands of an error that came to it through Temporal."""

import pytest
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    RetryState,
    TimeoutError,
    TimeoutType,
)

from activities.errors import pushed_aside, told, understood
from domain.errors import KINDS, Conflict, Failed, Failure, NotFound
from domain.operation import STALE


def wrapped(cause: BaseException) -> ActivityError:
    """As a workflow gets it from a hand."""
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=5,
        started_event_id=6,
        identity="1@host",
        activity_type="machines.deploy",
        activity_id="machines.deploy w-1",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("kind", KINDS.values())
def test_an_error_of_ours_comes_back_whole(kind: type[Failed]) -> None:
    error = kind("it is so", reason="OF_ITS_OWN")
    assert understood(wrapped(told(error))) == Failure.of(error)


def test_what_lies_below_an_error_of_ours_does_not_speak_for_it() -> None:
    error = told(Conflict("the operation is over", reason=STALE))
    error.__cause__ = ApplicationError("the operation is over", type="Conflict")
    assert pushed_aside(wrapped(error))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_a_workflow_raised_itself_has_its_usual_reason(kind: str) -> None:
    failure = understood(ApplicationError("it is so", type=kind))
    assert (failure.kind, failure.reason) == (kind, KINDS[kind].usual_reason)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (
            wrapped(ApplicationError("division by zero", type="ZeroDivisionError")),
            Failure(
                kind="Failed", message="ZeroDivisionError: division by zero", reason="UNEXPECTED"
            ),
        ),
        (
            wrapped(
                TimeoutError(
                    "activity Heartbeat timeout",
                    type=TimeoutType.HEARTBEAT,
                    last_heartbeat_details=[],
                )
            ),
            Failure(kind="Overdue", message="activity Heartbeat timeout", reason="OVERDUE"),
        ),
        (
            wrapped(CancelledError()),
            Failure(kind="Cancelled", message="cancelled by its caller", reason="CANCELLED"),
        ),
    ],
)
def test_what_nobody_of_us_raised_is_put_in_our_words(
    error: BaseException, failure: Failure
) -> None:
    assert understood(error) == failure


def test_the_bottom_of_the_chain_counts() -> None:
    assert understood(wrapped(wrapped(told(NotFound("no such machine"))))).kind == "NotFound"
