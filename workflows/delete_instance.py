"""A cluster or an app's instance deleted at the edge."""

from datetime import timedelta

from temporalio import workflow

from activities.tracking import Eviction, Tracking
from domain.awaiting import Outlook, Verdict
from domain.instance_plan import InstancePlan
from domain.operation import OperationId
from domain.record import Noun
from workflows.books import book
from workflows.vigil import Vigil, part, turn_the_page, well


@workflow.defn
class DeleteInstance:
    """What runs in a cluster and gives way goes first; with the last instance in a cluster that was
    made for it, that cluster goes as well. Parts that have begun go on when this is called off:
    what is half deleted is no use to anybody."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        self._operation = operation
        self._vigil = Vigil(operation)
        await self._vigil.carry_out(self._delete)

    async def _delete(self, plan: InstancePlan) -> None:
        outlook = None
        if plan.noun is Noun.CLUSTER_INST:
            for each in await book(Tracking.inside, self._operation):
                await evicted(each)
            outlook = well(await book(Tracking.proceed, self._operation))
        outlook = await self._vigil.until_settled(outlook)
        if outlook.more:
            await self._clear()

    async def _clear(self) -> None:
        """Have the cluster deleted, and end well whatever comes of that."""
        outlook = await book(Tracking.clear, self._operation)
        if outlook.nested:
            await part(self._operation, DeleteInstance.run, outlook.nested, stops=False)
        if outlook.verdict is not Verdict.DONE:
            await book(Tracking.succeed, self._operation)


async def evicted(eviction: Eviction) -> None:
    """Have something deleted that is in the way, however long somebody else is busy with it."""
    whole = eviction.operation
    while True:
        turn_the_page(whole)
        outlook = await book(Tracking.evict, eviction)
        if outlook.nested:
            failure = await part(whole, DeleteInstance.run, outlook.nested, stops=False)
            well(Outlook(verdict=Verdict.OVER, failure=failure))
        elif outlook.verdict is Verdict.WAIT:
            await workflow.sleep(timedelta(seconds=outlook.left_seconds))
        else:
            well(outlook)
            return
