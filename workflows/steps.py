"""The verbs all workflows are written in: do a step, take one back, run a part."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ChildWorkflowError,
    is_cancelled_exception,
)
from temporalio.workflow import (
    ActivityConfig,
    ChildWorkflowCancellationType,
    ParentClosePolicy,
)

from activities.errors import held
from activities.verbs import BOOKS_QUEUE, name_of, queue_of
from domain.operation import StepKey
from workflows.helm import helm
from workflows.together import ended, told_to_stop


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
    """Take one step in the world, once nothing holds us, and ask afterwards whether we were told to
    stop meanwhile."""
    return await _unless_stopped(lambda: _take(step, subject, how, turn=turn, undo=False))


async def child(
    run: Callable[[Any, Fact], Awaitable[Answer]],
    fact: Fact,
    *,
    id: str,
) -> Answer:
    """Run a part that has a name and a history of its own. It is told to stop when we are, and we
    wait until it has; when we are nudged, so is it."""
    return await _unless_stopped(lambda: _child(run, fact, id))


async def _child(run: Callable[[Any, Fact], Awaitable[Answer]], fact: Fact, id: str) -> Answer:
    """A child that is on its way is waited for until it has started, whoever stops us meanwhile:
    the library would leave it alone, and what it still takes would come after its undo."""
    start = workflow.start_child_workflow(
        run,
        fact,
        id=id,
        cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
    )
    starting = asyncio.create_task(start)
    await ended([starting])
    running = starting.result()
    if told_to_stop():
        running.cancel()
    with helm().passing_on_to(running):
        return await running


async def _unless_stopped(work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do it once nothing holds us, unless we were told to stop before. Being told meanwhile is one
    and the same exception, however it came to us: a hand whose worker is dead hears of no cancel
    and times out, which is no fault of its machine."""
    while True:
        await helm().clear()
        if told_to_stop():
            raise asyncio.CancelledError
        try:
            answer = await work()
        except (ActivityError, ChildWorkflowError) as error:
            if told_to_stop() or is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            if not held(error):
                raise
            helm().mistaken()
        else:
            break
    if told_to_stop():
        raise asyncio.CancelledError
    return answer


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
