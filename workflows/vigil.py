"""Waiting for a resource manager, and how operations on instances begin and end.

What is waited for is a row. Whoever moves it nudges; a nudge that is lost costs a minute at most,
since the row is looked at all the same. How much time is left is asked of the row each time, so it
is kept whatever process dies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from activities.errors import understood
from activities.progress import Progress
from activities.tracking import TakenBack, Tracking
from domain.awaiting import Outlook, Verdict
from domain.errors import Failure
from domain.instance_plan import InstancePlan
from domain.operation import NUDGE, Cancelled, OperationId
from workflows.books import book
from workflows.policies import BETWEEN_LOOKS, EVENTS_PER_RUN, FIRST_LOOK, RAREST_LOOK
from workflows.together import told_to_stop

Work = Callable[[InstancePlan], Awaitable[None]]


class Vigil:
    """One operation's workflow, while it waits."""

    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._nudged = False
        workflow.set_signal_handler(NUDGE, self._hear)

    async def carry_out(self, work: Work) -> None:
        """Take the operation up and do the work. If it does not end well, whatever can be is taken
        back, which is all one transaction, and the operation ends with it."""
        brief = await book(Progress.begin, self._operation)
        if brief.over:
            return
        try:
            if brief.cancelled_by or told_to_stop():
                raise asyncio.CancelledError
            await work(InstancePlan.model_validate_json(brief.plan))
        except (FailureError, asyncio.CancelledError) as error:
            called_off = Cancelled.by(brief.cancelled_by or "its caller")
            failure = called_off if told_to_stop() else understood(error)
            await book(Tracking.take_back, TakenBack(operation=self._operation, failure=failure))
            if brief.cancelled_by:
                return
            raise

    async def until_settled(self, outlook: Outlook | None = None) -> Outlook:
        """Wait until it is decided what becomes of the instance. A failure is raised."""
        if outlook is None:
            outlook = await book(Tracking.settle, self._operation)
        while outlook.verdict is Verdict.WAIT:
            turn_the_page(self._operation)
            await self._news(min(timedelta(seconds=outlook.left_seconds), BETWEEN_LOOKS))
            outlook = await book(Tracking.settle, self._operation)
            if told_to_stop():
                raise asyncio.CancelledError
        return well(outlook)

    async def _news(self, patience: timedelta) -> None:
        """Wait to be nudged, or for so long. A nudge that has come since the last look counts."""
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._nudged, timeout=patience)
        self._nudged = False

    def _hear(self) -> None:
        self._nudged = True


def well(outlook: Outlook) -> Outlook:
    """The outlook, or the failure that it is."""
    failure = outlook.failure
    if failure is not None:
        raise ApplicationError(
            failure.message, failure.model_dump(), type=failure.kind, non_retryable=True
        )
    return outlook


def turn_the_page(operation: OperationId) -> None:
    """Go on as a new run if this one has become long. It finds all it needs in the rows; a nudge
    that is lost is made up for by the next look."""
    if told_to_stop():
        raise asyncio.CancelledError
    if workflow.info().get_current_history_length() > EVENTS_PER_RUN:
        workflow.continue_as_new(operation)


async def part(
    whole: OperationId,
    run: Callable[[Any, OperationId], Awaitable[None]],
    operation: str,
    *,
    stops: bool,
) -> Failure | None:
    """Have an operation carried out that `whole` is made of, and wait until it has ended, which its
    own rows tell; what went wrong with it, if anything did. `stops`: whether it is called off with
    the whole, or goes on by itself."""
    given_up = ChildWorkflowCancellationType.ABANDON
    if stops:
        given_up = ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED
    with suppress(WorkflowAlreadyStartedError, ChildWorkflowError):
        await workflow.execute_child_workflow(
            run,
            OperationId(operation),
            id=f"op-{operation}",
            cancellation_type=given_up,
            parent_close_policy=ParentClosePolicy.ABANDON,
        )
    pause = FIRST_LOOK
    while True:
        turn_the_page(whole)
        outlook = await book(Tracking.ended, OperationId(operation))
        if outlook.verdict is Verdict.OVER:
            return outlook.failure
        await workflow.sleep(pause)  # a sweep has started it
        pause = min(pause * 2, RAREST_LOOK)
