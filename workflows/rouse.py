"""The pawl of what runs on nodes: whatever is due has somebody who does it."""

from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from activities.placing import Placing
from domain.operation import NUDGE
from workflows.drain_node import DrainNode
from workflows.policies import BOOKS
from workflows.run_instance import RunInstance


@workflow.defn
class Rouse:
    """Runs every few seconds, one at a time. It starts whoever is not there and nudges whoever is:
    each of them knows nothing but its row, so one nudge too many is one look too many."""

    @workflow.run
    async def run(self) -> None:
        asleep = await workflow.execute_local_activity_method(Placing.look, **BOOKS)
        for uid in asleep.instances:
            await self._rouse(RunInstance, f"i-{uid}", uid)
        for node in asleep.draining:
            await self._rouse(DrainNode, f"drain-{node}", node)

    async def _rouse(self, flow: type[Any], id: str, fact: str) -> None:
        try:
            await workflow.start_child_workflow(
                flow.run,
                fact,
                id=id,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                parent_close_policy=ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            await self._nudge(id)

    async def _nudge(self, id: str) -> None:
        try:
            await workflow.get_external_workflow_handle(id).signal(NUDGE)
        except FailureError:
            workflow.logger.debug("%s has ended meanwhile", id)
