"""Time that runs out, unless somebody has stopped the clock."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from workflows.helm import helm
from workflows.together import Walk

Answer = TypeVar("Answer")

OVERDUE = "Overdue"


async def within(limit: timedelta, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run to the end, or cancel it once the time is up, wait for it, and fail as Overdue. Time in
    which the operation was paused does not count."""
    walk, steersman = Walk(), helm()
    tasks = walk.start([work])
    (task,) = tasks
    began, held = workflow.now(), steersman.held
    try:
        while not task.done():
            if steersman.paused:
                await workflow.wait_condition(lambda: task.done() or not steersman.paused)
                continue
            left = limit - (workflow.now() - began - (steersman.held - held))
            if left <= timedelta(0):
                break
            await workflow.wait(tasks, timeout=left.total_seconds())
    except asyncio.CancelledError:
        await walk.stop(tasks)
        raise
    if task.done():
        return task.result()
    await walk.stop(tasks)
    raise ApplicationError(f"not done within {limit}", type=OVERDUE, non_retryable=True)


def ran_out(error: FailureError) -> bool:
    """Whether it was `within` that gave up."""
    return isinstance(error, ApplicationError) and error.type == OVERDUE
