"""A cluster taken apart: every machine given back, the name free again."""

from temporalio import workflow
from temporalio.exceptions import FailureError

from activities.endpoints import Endpoints
from activities.machines import Machines
from activities.progress import Progress
from domain import ports
from domain.cluster import ClusterPlan, Phase
from domain.operation import Brief, OperationId, Reached
from domain.ports import Endpoint
from workflows.carrying_out import carry_out
from workflows.policies import FIRST_LOOK, RAREST_LOOK, STUBBORN, UNDO_DEADLINE
from workflows.steps import book, do
from workflows.together import together


@workflow.defn
class DeleteCluster:
    """Never needs a healthy API or a host that answers: it asks MAAS alone.

    What runs on the cluster is pushed aside first and gets its time to undo; then every machine
    is released, known to us or not, and tried for until MAAS has let go of it."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._delete, failed=None)

    async def _delete(self, plan: ClusterPlan, brief: Brief) -> Reached:
        if brief.supersedes:
            await self._push_aside(brief.supersedes)
        await together(*(do(Machines.release, slot, STUBBORN) for slot in plan.slots))
        await do(Machines.sweep, ports.mark(plan), STUBBORN)
        await do(Endpoints.remove, Endpoint(cluster_uid=plan.uid, name=plan.endpoint), STUBBORN)
        return Reached.well(brief.operation, Phase.GONE, "deleted")

    async def _push_aside(self, other: OperationId) -> None:
        """Tell the other operation to stop and wait for its undo; past the deadline take over:
        from then on the store refuses whatever it still writes, and its hands touch nothing."""
        try:
            await workflow.get_external_workflow_handle(f"op-{other}").cancel()
        except FailureError:
            workflow.logger.info("operation %s has no workflow any more", other)
        deadline = workflow.now() + UNDO_DEADLINE
        pause = FIRST_LOOK
        while not await book(Progress.ended, other):
            if workflow.now() >= deadline:
                await book(Progress.fence, other)
                return
            await workflow.sleep(pause)
            pause = min(pause * 2, RAREST_LOOK)
