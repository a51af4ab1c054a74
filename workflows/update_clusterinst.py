"""A cluster at the edge given another number of nodes."""

from temporalio import workflow

from domain.instance_plan import InstancePlan
from domain.operation import OperationId
from workflows.vigil import Vigil


@workflow.defn
class UpdateClusterInst:
    """Waits for the resource manager; a change that fails is rolled back."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        self._vigil = Vigil(operation)
        await self._vigil.carry_out(self._update)

    async def _update(self, _plan: InstancePlan) -> None:
        await self._vigil.until_settled()
