"""The pawl: what was accepted is started, what was called off is told, what was lost is noticed.
And every cluster that stands gets its monitor."""

import asyncio

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from activities.sweeping import Due, Sweeping
from domain.operation import NUDGE
from workflows.books import book
from workflows.catalogue import CATALOGUE
from workflows.cluster_monitor import ClusterMonitor
from workflows.policies import BOOKS


@workflow.defn
class Sweep:
    """Runs every few seconds, one at a time. Repairs only the gaps between the rows and Temporal;
    it never starts over what has run."""

    @workflow.run
    async def run(self) -> None:
        standing = await workflow.execute_local_activity_method(Sweeping.look, **BOOKS)
        # each group at once: one by one, a thousand monitors would be minutes behind
        await asyncio.gather(*map(self._launch, standing.unlaunched))
        await asyncio.gather(*map(self._tell, standing.called_off))
        await asyncio.gather(*map(self._nudge, standing.unheeded))
        await asyncio.gather(*(book(Sweeping.verify, due) for due in standing.silent))
        await asyncio.gather(*map(self._watch, standing.unwatched))

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

    async def _watch(self, cluster: str) -> None:
        """A cluster has one monitor: the id lets no second one in."""
        try:
            await workflow.start_child_workflow(
                ClusterMonitor.run,
                cluster,
                id=f"monitor-{cluster}",
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
