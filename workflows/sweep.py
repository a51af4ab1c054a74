"""The pawl: what was accepted is started, what was called off is told, what was lost is noticed.
And every cluster that stands gets its monitor."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    FailureError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.workflow import ParentClosePolicy

from activities.errors import understood
from activities.sweeping import Aside, Due, Sweeping, monitor_id
from domain.operation import NUDGE, OperationId
from workflows.books import book
from workflows.catalogue import CATALOGUE
from workflows.cluster_monitor import ClusterMonitor
from workflows.policies import BOOKS, EACH_APART

FAILED = "windlass_sweep_items_failed"
"""A counter of the worker's, of what a sweep could do nothing about."""

Item = TypeVar("Item")


async def apart(
    work: Callable[[Item], Awaitable[None]], item: Item, operation: OperationId | None = None
) -> None:
    """Do it for one of many: whatever is the matter with it keeps none of the others waiting. An
    operation says that it needs a person; what has no row to say so is found again."""
    try:
        await work(item)
    except Exception as error:
        if is_cancelled_exception(error):
            raise
        said = understood(error).message if isinstance(error, FailureError) else repr(error)
        workflow.logger.warning("the sweep can do nothing about %s: %s", operation or item, said)
        workflow.metric_meter().create_counter(FAILED, "What a sweep could not do.").add(1)
        if operation is None:
            return
        with suppress(FailureError):
            aside = Aside(id=operation, why=f"the sweep can do nothing about it: {said}")
            await workflow.execute_local_activity_method(Sweeping.set_aside, aside, **EACH_APART)


@workflow.defn
class Sweep:
    """Runs every few seconds, one at a time. Repairs only the gaps between the rows and Temporal;
    it never starts over what has run."""

    @workflow.run
    async def run(self) -> None:
        standing = await workflow.execute_local_activity_method(Sweeping.look, **BOOKS)
        # each group at once: one by one, a thousand monitors would be minutes behind
        await asyncio.gather(*(apart(self._launch, it, it.id) for it in standing.unlaunched))
        await asyncio.gather(*(apart(self._tell, it, it.id) for it in standing.called_off))
        await asyncio.gather(*(apart(self._nudge, it, it.id) for it in standing.unheeded))
        await asyncio.gather(*(apart(self._verify, it, it.id) for it in standing.silent))
        await asyncio.gather(*(apart(self._watch, it) for it in standing.unwatched))

    async def _launch(self, due: Due) -> None:
        """Under its usual id: of all who start it, one succeeds."""
        try:
            await workflow.start_child_workflow(
                CATALOGUE[due.kind].run,
                due.id,
                id=f"op-{due.id}",
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            workflow.logger.debug("operation %s has been started meanwhile", due.id)

    async def _verify(self, due: Due) -> None:
        await workflow.execute_local_activity_method(Sweeping.verify, due, **EACH_APART)

    async def _watch(self, cluster: str) -> None:
        """A cluster has one monitor: the id lets no second one in."""
        try:
            await workflow.start_child_workflow(
                ClusterMonitor.run,
                cluster,
                id=monitor_id(cluster),
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                parent_close_policy=ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            workflow.logger.debug("the monitor of %s is there and waits for a worker", cluster)
        await book(Sweeping.watches, cluster)

    async def _nudge(self, due: Due) -> None:
        try:
            await workflow.get_external_workflow_handle(f"op-{due.id}").signal(NUDGE)
        except FailureError:
            workflow.logger.debug("operation %s has ended meanwhile", due.id)

    async def _tell(self, due: Due) -> None:
        try:
            await workflow.get_external_workflow_handle(f"op-{due.id}").cancel()
        except FailureError:
            workflow.logger.debug("operation %s has ended meanwhile", due.id)
