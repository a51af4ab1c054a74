"""A cloudlet deleted with what was made on it for others."""

from temporalio import workflow

from activities.tracking import Tracking
from domain.instance_plan import InstancePlan
from domain.operation import OperationId
from workflows.books import book
from workflows.delete_instance import evicted
from workflows.vigil import Vigil, well


@workflow.defn
class DeleteCloudlet:
    """Instances first, so that their resource manager still knows where they are."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        self._operation = operation
        await Vigil(operation).carry_out(self._delete)

    async def _delete(self, _plan: InstancePlan) -> None:
        for each in await book(Tracking.inhabitants, self._operation):
            await evicted(each)
        well(await book(Tracking.demolish, self._operation))
