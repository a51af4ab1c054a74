"""The pawl of what runs on nodes: whatever is due has somebody who does it."""

import asyncio
from typing import Any, TypeAlias

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from activities.placing import Placing
from domain.operation import NUDGE
from workflows.drain_node import DrainNode
from workflows.policies import BOOKS
from workflows.run_instance import RunInstance
from workflows.sweep import apart

SIDE_BY_SIDE = "side-by-side"
"""What those lack that began when one was roused after the other."""

Wanted: TypeAlias = tuple[type[Any], str, str]
"""A workflow, its id, and what it looks after."""


@workflow.defn
class Rouse:
    """Runs every few seconds, one at a time. It starts whoever is not there and nudges whoever is:
    each of them knows nothing but its row, so one nudge too many is one look too many."""

    @workflow.run
    async def run(self) -> None:
        asleep = await workflow.execute_local_activity_method(Placing.look, **BOOKS)
        wanted: list[Wanted] = [(RunInstance, f"i-{uid}", uid) for uid in asleep.instances]
        wanted += [(DrainNode, f"drain-{node}", node) for node in asleep.draining]
        rousing = [apart(self._rouse, each) for each in wanted]
        if workflow.patched(SIDE_BY_SIDE):
            await asyncio.gather(*rousing)
            return
        for each in rousing:
            await each

    async def _rouse(self, wanted: Wanted) -> None:
        flow, id, fact = wanted
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
