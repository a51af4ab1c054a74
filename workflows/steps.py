"""The verbs all workflows are written in: do a step, keep a book, do things together."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    is_cancelled_exception,
)
from temporalio.workflow import (
    ActivityConfig,
    ChildWorkflowCancellationType,
    ParentClosePolicy,
)

from activities.verbs import BOOKS_QUEUE, name_of, queue_of
from domain.operation import StepKey
from workflows.policies import BOOKS


class Named(Protocol):
    """Whatever a step can be done to."""

    @property
    def named(self) -> str: ...


Subject = TypeVar("Subject", bound=Named)
Fact = TypeVar("Fact")
Answer = TypeVar("Answer")


async def do(
    step: Callable[[Any, Subject], Awaitable[Answer]],
    subject: Subject,
    how: ActivityConfig,
    *,
    turn: int = 1,
) -> Answer:
    """Take one step in the world. A step that waits out its cancellation and ends well swallows
    the cancel, so we ask after every step whether we were told to stop."""
    try:
        answer = await _take(step, subject, how, turn=turn, undo=False)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise asyncio.CancelledError from error
        raise
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError
    return answer


async def child(
    run: Callable[[Any, Fact], Awaitable[Answer]],
    fact: Fact,
    *,
    id: str,
) -> Answer:
    """Run a part that has a name and a history of its own. It is told to stop when we are, and we
    wait until it has."""
    try:
        return await workflow.execute_child_workflow(
            run,
            fact,
            id=id,
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        )
    except ChildWorkflowError as error:
        if is_cancelled_exception(error):
            raise asyncio.CancelledError from error
        raise


async def undo(
    step: Callable[[Any, Subject], Awaitable[Answer]],
    subject: Subject,
    how: ActivityConfig,
    *,
    turn: int = 1,
) -> Answer:
    """Take one step back. It does not ask: whoever undoes has been told to stop already."""
    return await _take(step, subject, how, turn=turn, undo=True)


async def _take(
    step: Callable[[Any, Subject], Awaitable[Answer]],
    subject: Subject,
    how: ActivityConfig,
    *,
    turn: int,
    undo: bool,
) -> Answer:
    key = StepKey(verb=name_of(step), subject=subject.named, turn=turn, undo=undo)
    config: ActivityConfig = {
        **how,
        "task_queue": queue(queue_of(step)),
        "activity_id": str(key),
    }
    return await workflow.execute_activity_method(step, subject, **config)


def queue(name: str) -> str:
    """The full name of a task queue: what stands before our own queue's name stands before all."""
    return workflow.info().task_queue.removesuffix(BOOKS_QUEUE) + name


async def book(step: Callable[[Any, Fact], Awaitable[Answer]], fact: Fact) -> Answer:
    """Write to our own rows, or read them."""
    return await workflow.execute_local_activity_method(step, fact, **BOOKS)


async def together(*work: Coroutine[Any, Any, Answer]) -> list[Answer]:
    """Run all; when one fails, cancel the rest and wait for them before raising that failure.

    `asyncio.gather` would return with the others still running, so an unwind could race a join.
    `asyncio.TaskGroup` would raise an ExceptionGroup, which Temporal takes for a bug in the
    workflow and retries for ever."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        for done in workflow.as_completed(tasks):
            await done
    except BaseException:
        await _stopped(tasks)
        raise
    return [task.result() for task in tasks]


async def _stopped(tasks: "list[asyncio.Task[Answer]]") -> None:
    for task in tasks:
        task.cancel()
    pending = [task for task in tasks if not task.done()]
    while pending:
        with suppress(asyncio.CancelledError):  # told twice: the tasks still have to end first
            await workflow.wait(pending)
        pending = [task for task in tasks if not task.done()]


async def within(limit: timedelta, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run to the end, or cancel it once the time is up, wait for it, and fail as Overdue."""
    task = asyncio.create_task(work)
    try:
        await workflow.wait([task], timeout=limit.total_seconds())
    except asyncio.CancelledError:
        await _stopped([task])
        raise
    if task.done():
        return task.result()
    await _stopped([task])
    raise ApplicationError(f"not done within {limit}", type="Overdue", non_retryable=True)
