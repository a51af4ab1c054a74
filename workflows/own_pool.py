"""Pools in Ceph that belong to no cluster, each with an identity that may use it."""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from activities.storage import Storage
from domain.operation import Brief, OperationId, Reached
from domain.share import Share
from domain.storage_plan import StoragePlan
from workflows.carrying_out import carry_out_on_storage
from workflows.policies import BRIEF, STUBBORN
from workflows.steps import do
from workflows.unwind import Unwind


@workflow.defn
class CreatePool:
    """The pool first, then who may use it. If either cannot be had, both are taken back."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out_on_storage(operation, self._create)

    async def _create(self, plan: StoragePlan, _brief: Brief) -> Reached:
        share = _wanted(plan)
        async with Unwind() as unwind:
            unwind.add(Storage.delete_pool, share.pool)
            await do(Storage.ensure_pool, share.pool, BRIEF)
            unwind.add(Storage.revoke_identity, share.identity)
            await do(Storage.ensure_identity, share.identity, BRIEF)
        note = f"{share.identity.entity} may use the pool {share.pool.name}, and no other"
        return Reached.well(self._operation, None, note)


@workflow.defn
class DeletePool:
    """Nobody may use it any more, then it goes. A pool of another number, or of somebody else's,
    is left alone."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out_on_storage(operation, self._delete)

    async def _delete(self, plan: StoragePlan, _brief: Brief) -> Reached:
        share = _wanted(plan)
        await do(Storage.revoke_identity, share.identity, STUBBORN)
        await do(Storage.delete_pool, share.pool, STUBBORN)
        return Reached.well(self._operation, None, f"the pool {share.pool.name} is gone")


def _wanted(plan: StoragePlan) -> Share:
    if plan.share is None:
        message = "its plan does not say which pool is meant"
        raise ApplicationError(message, type="Failed", non_retryable=True)
    return plan.share
