"""A child that is told to stop while it is still on its way."""

import asyncio
from datetime import timedelta
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from workflows import runner
from workflows.steps import child
from workflows.together import ended

BRIEFLY = timedelta(seconds=10)


@activity.defn
async def call_off(name: str) -> None:
    """Whoever calls this is cancelled before what it has just started is seen to have begun: both
    are told with the workflow's next task."""
    await activity.client().get_workflow_handle(name).cancel()


@activity.defn
async def standing(name: str) -> int:
    """How a workflow stands."""
    described = await activity.client().get_workflow_handle(name).describe()
    return int(described.status or 0)


@workflow.defn
class Lingering:
    """Takes its time to end."""

    @workflow.run
    async def run(self, _: str) -> None:
        try:
            await workflow.wait_condition(lambda: False)
        finally:
            await workflow.sleep(timedelta(seconds=0.3))


@workflow.defn
class Impatient:
    """Starts a child and is called off in the same task; says how the child stands after that."""

    @workflow.run
    async def run(self, name: str) -> int:
        own, lane = workflow.info().workflow_id, asyncio.create_task(self._lane(name))
        await workflow.execute_local_activity(call_off, own, start_to_close_timeout=BRIEFLY)
        await ended([lane])
        return await workflow.execute_local_activity(standing, name, start_to_close_timeout=BRIEFLY)

    async def _lane(self, name: str) -> None:
        await child(Lingering.run, name, id=name)


async def test_a_child_that_is_on_its_way_is_waited_for(
    temporal: WorkflowEnvironment, queues: str
) -> None:
    async with Worker(
        temporal.client,
        task_queue=queues,
        workflows=[Lingering, Impatient],
        activities=[call_off, standing],
        workflow_runner=runner(),
    ):
        left = await temporal.client.execute_workflow(
            Impatient.run, f"child-{uuid4()}", id=f"parent-{uuid4()}", task_queue=queues
        )
    assert left == WorkflowExecutionStatus.CANCELED
