"""OSDs of a Ceph cluster taken out, or in, and what lies on them moved."""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from activities.storage import Storage
from domain.operation import Brief, OperationId, Reached
from domain.storage_plan import Marking, OsdMark, StoragePlan
from workflows.carrying_out import carry_out_on_storage
from workflows.policies import BRIEF, SETTLING
from workflows.steps import do
from workflows.together import together
from workflows.unwind import Unwind


@workflow.defn
class MarkOsds:
    """It is looked once more whether they may go; then all are marked, one after the other, and
    Ceph moves their data at once. It is done when every placement group is active and clean and,
    of those that were taken out, Ceph would let each be destroyed.

    Whatever ends it before that marks them as they were: what was moved is moved back."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out_on_storage(operation, self._mark)

    async def _mark(self, plan: StoragePlan, _brief: Brief) -> Reached:
        marking = _wanted(plan)
        await do(Storage.check_marking, marking, BRIEF)
        async with Unwind() as unwind:
            for mark in marking.marks:
                unwind.add(Storage.mark_osd, mark.back())
                await do(Storage.mark_osd, mark, BRIEF)
            await together(*map(self._settle, marking.marks))
        named = ", ".join(mark.named for mark in marking.marks)
        said = "data is placed there again" if marking.inside else "nothing lies there alone"
        return Reached.well(self._operation, None, f"{named}: {said}")

    async def _settle(self, mark: OsdMark) -> None:
        await do(Storage.wait_settled, mark, SETTLING)


def _wanted(plan: StoragePlan) -> Marking:
    if plan.marking is None:
        message = "its plan does not say which OSDs are meant"
        raise ApplicationError(message, type="Failed", non_retryable=True)
    return plan.marking
