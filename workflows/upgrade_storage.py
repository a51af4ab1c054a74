"""A Ceph cluster brought to another version, daemon by daemon, by whoever runs its daemons."""

from datetime import datetime

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from activities.progress import Progress
from activities.storage import Storage
from domain.operation import Brief, OperationId, Reached
from domain.storage_plan import Renewal, StoragePlan, Target
from workflows.books import book
from workflows.carrying_out import carry_out_on_storage
from workflows.helm import helm
from workflows.policies import BRIEF, CALMING, INSISTING, STALLED, WATCHING
from workflows.steps import do, undo
from workflows.unwind import Unwind


@workflow.defn
class UpgradeStorage:
    """Once it is fit for it Ceph is told where to go, and watched on its way.

    There is no way back, so what ends it early, or holds it, pauses it in Ceph as well: daemons of
    both versions get on with each other. When none has been replaced for long, or Ceph is in
    trouble, it is paused and waits for somebody to approve that it goes on. It is done once every
    daemon runs that version and Ceph is well. Asking for the same version again goes on with one
    that was left."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._turn = 0

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out_on_storage(operation, self._upgrade)

    async def _upgrade(self, plan: StoragePlan, _brief: Brief) -> Reached:
        target = _wanted(plan)
        await do(Storage.check_upgrade, target, BRIEF)
        async with Unwind() as unwind:
            unwind.add(Storage.pause_upgrade, target, INSISTING)
            await self._go_on(target)
            await self._watch(target)
            await do(Storage.wait_sound, target, CALMING)
        return Reached.well(self._operation, None, f"Ceph runs {target.version}")

    async def _watch(self, target: Target) -> None:
        moved, asked = workflow.now(), target
        while True:
            seen = await do(Storage.wait_upgraded, asked, WATCHING, turn=self._turn)
            if seen.is_over(target):
                return
            _refuse_what_was_stopped(seen, target)
            if seen.done != asked.done:
                moved, asked = workflow.now(), target.model_copy(update={"done": seen.done})
                await self._say(seen.said(target))
            if helm().paused:
                await undo(Storage.pause_upgrade, target, BRIEF, turn=self._turn)
                moved = await self._go_on(target)
            elif why := seen.trouble or _stalled(moved):
                await do(Storage.pause_upgrade, target, BRIEF, turn=self._turn)
                await self._say(f"paused in Ceph: {why}")
                await helm().approved(f"going on to Ceph {target.version}, #{self._turn}")
                moved = await self._go_on(target)
            else:
                self._turn += 1

    async def _go_on(self, target: Target) -> datetime:
        """Begin, or begin again once nothing holds us."""
        self._turn += 1
        await do(Storage.begin_upgrade, target, BRIEF, turn=self._turn)
        return workflow.now()

    async def _say(self, note: str) -> None:
        reached = Reached(operation=self._operation, note=note, headline=note)
        await book(Progress.tell, reached)


def _stalled(moved: datetime) -> str:
    still = workflow.now() - moved
    return f"no daemon was replaced for {still}" if still > STALLED else ""


def _refuse_what_was_stopped(seen: Renewal, target: Target) -> None:
    if not seen.running:
        message = f"Ceph runs {seen.version} and is not on its way to {target.version} any more"
        raise ApplicationError(message, type="Failed", non_retryable=True)


def _wanted(plan: StoragePlan) -> Target:
    if plan.target is None:
        message = "its plan does not say to which version"
        raise ApplicationError(message, type="Failed", non_retryable=True)
    return plan.target
