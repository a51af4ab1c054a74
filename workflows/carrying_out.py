"""How every operation's workflow begins and ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio.exceptions import FailureError

from activities.errors import understood
from activities.progress import Progress
from domain.cluster import ClusterPlan, Phase
from domain.frozen import Frozen
from domain.operation import Brief, Cancelled, OperationId, Reached
from domain.storage_plan import StoragePlan
from workflows.books import book
from workflows.helm import helm
from workflows.together import told_to_stop

Plan = TypeVar("Plan", bound=Frozen)
Book = Callable[[Any, Reached], Awaitable[None]]


async def carry_out(
    operation: OperationId,
    work: Callable[[ClusterPlan, Brief], Awaitable[Reached]],
    *,
    failed: Phase | None,
) -> None:
    """Take the operation up, do the work and book how it ended; `failed` is what the cluster is
    if it ends badly."""
    await _carry_out(operation, work, ClusterPlan, Progress.record, failed)


async def carry_out_on_storage(
    operation: OperationId, work: Callable[[StoragePlan, Brief], Awaitable[Reached]]
) -> None:
    """The same, of an operation on Ceph, which belongs to no cluster."""
    await _carry_out(operation, work, StoragePlan, Progress.tell, None)


async def _carry_out(
    operation: OperationId,
    work: Callable[[Plan, Brief], Awaitable[Reached]],
    of: type[Plan],
    record: Book,
    failed: Phase | None,
) -> None:
    """What has ended already, or was called off before it began, is left alone.

    A bug is no ending: it suspends the workflow until it is mended, and nothing is booked."""
    brief = await book(Progress.begin, operation)
    if brief.over:
        return
    if brief.cancelled_by or told_to_stop():
        failure = Cancelled.by(brief.cancelled_by or "its caller")
        await book(record, Reached.badly(operation, failed, failure))
        return
    helm().told(paused=brief.paused)
    plan = of.model_validate_json(brief.plan)
    try:
        reached = await work(plan, brief)
    except (FailureError, asyncio.CancelledError) as error:
        failure = Cancelled.by("its caller") if told_to_stop() else understood(error)
        await book(record, Reached.badly(operation, failed, failure))
        raise
    await book(record, reached)
