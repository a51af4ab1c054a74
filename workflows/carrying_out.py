"""How every operation's workflow begins and ends."""

import asyncio
from collections.abc import Awaitable, Callable

from temporalio.exceptions import FailureError

from activities.errors import understood
from activities.progress import Progress
from domain.cluster import ClusterPlan, Phase
from domain.operation import Brief, Cancelled, OperationId, Reached
from workflows.books import book
from workflows.helm import helm
from workflows.together import told_to_stop

Work = Callable[[ClusterPlan, Brief], Awaitable[Reached]]


async def carry_out(operation: OperationId, work: Work, *, failed: Phase | None) -> None:
    """Take the operation up, do the work and book how it ended; `failed` is what the cluster is
    if it ends badly. What has ended already, or was called off before it began, is left alone.

    A bug is no ending: it suspends the workflow until it is mended, and nothing is booked."""
    brief = await book(Progress.begin, operation)
    if brief.over:
        return
    if brief.cancelled_by or told_to_stop():
        failure = Cancelled.by(brief.cancelled_by or "its caller")
        await book(Progress.record, Reached.badly(operation, failed, failure))
        return
    helm().told(paused=brief.paused)
    plan = ClusterPlan.model_validate_json(brief.plan)
    try:
        reached = await work(plan, brief)
    except (FailureError, asyncio.CancelledError) as error:
        failure = Cancelled.by("its caller") if told_to_stop() else understood(error)
        await book(Progress.record, Reached.badly(operation, failed, failure))
        raise
    await book(Progress.record, reached)
