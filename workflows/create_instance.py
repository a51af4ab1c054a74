"""A cluster or an app's instance created at the edge."""

from temporalio import workflow

from activities.tracking import Tracking
from domain.awaiting import Outlook, Verdict
from domain.instance_plan import InstancePlan
from domain.operation import OperationId
from workflows.books import book
from workflows.vigil import Vigil, part, well


@workflow.defn
class CreateInstance:
    """The instance is there as a row when this begins, unless its cluster is made first; what is
    left is to wait for its resource manager, or to take it all back."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        self._operation = operation
        self._vigil = Vigil(operation)
        await self._vigil.carry_out(self._create)

    async def _create(self, plan: InstancePlan) -> None:
        outlook = None
        if plan.nested:
            failure = await part(self._operation, CreateInstance.run, plan.nested, stops=True)
            well(Outlook(verdict=Verdict.OVER, failure=failure))
            outlook = well(await book(Tracking.place, self._operation))
        await self._vigil.until_settled(outlook)
