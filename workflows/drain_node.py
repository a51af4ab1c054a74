"""A node emptied of its instances, by a time that was set."""

from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

from activities.placing import Placing
from domain.errand import Emptying
from domain.operation import NUDGE
from workflows.books import book
from workflows.policies import EMPTYING_LOOK, LOOKS_PER_DRAIN


@workflow.defn
class DrainNode:
    """Tells a few instances at a time to leave, until nothing is on the node. What may run nowhere
    else is left alone until the node's time is up, and ended then. Whoever opens the node again
    ends it.

    It knows nothing but the node: whatever becomes of it, another goes on where it was."""

    def __init__(self) -> None:
        self._nudges = 0
        workflow.set_signal_handler(NUDGE, self._hear)

    @workflow.run
    async def run(self, node: str) -> None:
        for _ in range(LOOKS_PER_DRAIN):
            nudges = self._nudges
            emptying = await book(Placing.empty, node)
            if emptying.over:
                return
            for uid in emptying.told:
                await self._tell(uid)
            await self._news(nudges, emptying)
        workflow.continue_as_new(node)

    async def _tell(self, uid: str) -> None:
        try:
            await workflow.get_external_workflow_handle(f"i-{uid}").signal(NUDGE)
        except FailureError:
            workflow.logger.debug("a sweep tells instance %s, whose workflow is not there", uid)

    async def _news(self, nudges: int, emptying: Emptying) -> None:
        patience = EMPTYING_LOOK
        if emptying.in_seconds is not None and emptying.in_seconds > 0:
            patience = min(patience, timedelta(seconds=emptying.in_seconds + 0.1))
        elif emptying.until is not None and emptying.until > workflow.now():
            patience = min(patience, emptying.until - workflow.now() + timedelta(seconds=0.1))
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._nudges > nudges, timeout=patience)

    def _hear(self) -> None:
        self._nudges += 1
