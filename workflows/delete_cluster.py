"""A cluster taken apart: every machine given back, the name free again."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from activities.endpoints import Endpoints
from activities.errors import pushed_aside, understood
from activities.machines import Machines
from activities.progress import Progress
from activities.storage import Storage
from activities.sweeping import Sweeping
from domain import ports
from domain.cluster import ClusterPlan, Phase
from domain.machine import LeftBehind
from domain.operation import Brief, OperationId, Reached
from domain.ports import Endpoint
from workflows.books import book
from workflows.carrying_out import carry_out
from workflows.policies import (
    FIRST_LOOK,
    HANDS_DEADLINE,
    INSISTING,
    RAREST_LOOK,
    STUBBORN,
    UNDO_DEADLINE,
)
from workflows.steps import Subject, do
from workflows.together import together


@workflow.defn
class DeleteCluster:
    """Never needs a healthy API or a host that answers: it asks MAAS alone.

    What runs on the cluster is pushed aside first and gets its time to undo; then every machine
    is released, known to us or not, and tried for until MAAS has let go of it. A forced one tries a
    few times, and says in the end what it left."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._delete, failed=None)

    async def _delete(self, plan: ClusterPlan, brief: Brief) -> Reached:
        fenced = await self._push_aside(brief.supersedes) if brief.supersedes else ()
        if plan.forced:
            return await self._let_go(plan, brief)
        await together(*(do(Machines.release, slot, STUBBORN) for slot in plan.slots))
        await self._wait_for_the_hands_of(fenced)
        await do(Machines.sweep, ports.mark(plan), STUBBORN)
        await do(Endpoints.remove, _endpoint(plan), STUBBORN)
        if plan.storage:
            await do(Storage.revoke_identity, plan.storage.identity, STUBBORN)
            if not plan.keeps_data:
                await do(Storage.delete_pool, plan.storage.pool, STUBBORN)
        return Reached.well(brief.operation, Phase.GONE, _said(plan))

    async def _let_go(self, plan: ClusterPlan, brief: Brief) -> Reached:
        """Give back what can be given back, and remember the rest: the cluster goes either way."""
        fenced = await book(Progress.fence_others, brief.operation)
        for other in fenced:
            if other != brief.supersedes:  # which was told before
                await _tell_to_stop(other)
        kept = await together(*(self._kept(Machines.release, slot) for slot in plan.slots))
        await self._wait_for_the_hands_of(fenced)
        if more := await self._kept(Machines.sweep, ports.mark(plan)):
            kept.append(more)
        else:
            kept.clear()  # nothing carries the cluster's mark any more
        kept.append(await self._kept(Endpoints.remove, _endpoint(plan)))
        if plan.storage:
            kept.append(await self._kept(Storage.revoke_identity, plan.storage.identity))
            if not plan.keeps_data:
                kept.append(await self._kept(Storage.delete_pool, plan.storage.pool))
        left = tuple(each for each in kept if each is not None)
        reached = Reached.well(brief.operation, Phase.GONE, _said(plan))
        return reached.model_copy(update={"left_behind": left})

    async def _kept(
        self, step: Callable[[Any, Subject], Awaitable[Any]], subject: Subject
    ) -> LeftBehind | None:
        """What is left behind because it could not be taken away; None if it could."""
        try:
            await do(step, subject, INSISTING)
        except FailureError as error:
            if pushed_aside(error):
                raise
            return LeftBehind(name=subject.named, why=understood(error).message)
        return None

    async def _push_aside(self, other: OperationId) -> tuple[OperationId, ...]:
        """Tell the other operation to stop and wait for its undo; past the deadline take over:
        from then on the store refuses whatever it still writes, and its hands begin nothing.
        Returns what had to be fenced so."""
        await _tell_to_stop(other)
        deadline = workflow.now() + UNDO_DEADLINE
        pause = FIRST_LOOK
        while not await book(Progress.ended, other):
            if workflow.now() >= deadline:
                await book(Progress.fence, other)
                return (other,)
            await workflow.sleep(pause)
            pause = min(pause * 2, RAREST_LOOK)
        return ()

    async def _wait_for_the_hands_of(self, fenced: Sequence[OperationId]) -> None:
        """A hand that was at work when its operation was fenced may still take a machine. Nobody
        writes that down, so it is waited for: then the sweep finds what it took."""
        deadline = workflow.now() + HANDS_DEADLINE
        for other in fenced:
            pause = FIRST_LOOK
            while workflow.now() < deadline and not await book(Sweeping.rests, other):
                await workflow.sleep(pause)
                pause = min(pause * 2, RAREST_LOOK)


async def _tell_to_stop(other: OperationId) -> None:
    try:
        await workflow.get_external_workflow_handle(f"op-{other}").cancel()
    except FailureError:
        workflow.logger.info("operation %s has no workflow any more", other)


def _said(plan: ClusterPlan) -> str:
    if plan.storage and plan.keeps_data:
        return f"deleted; its data is kept in the pool {plan.storage.pool.name}"
    return "deleted"


def _endpoint(plan: ClusterPlan) -> Endpoint:
    return Endpoint(cluster_uid=plan.uid, name=plan.endpoint)
