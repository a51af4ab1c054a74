"""One instance on nodes, for as long as it lives."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityConfig

from activities.errors import understood
from activities.instances import Instances
from activities.placing import Placing
from domain.errand import BOOKED, Errand, Outcome, Stumble, What
from domain.instance import InstanceUid
from domain.operation import NUDGE
from workflows.books import book
from workflows.policies import (
    ATTENDING,
    CLEANING,
    ERRANDS_PER_RUN,
    FIRST_LOOK,
    INSTANCE_GLANCE,
    ON_A_NODE,
)
from workflows.steps import queue
from workflows.together import ended

HANDS: dict[What, Callable[[Any, Errand], Awaitable[bool | None]]] = {
    What.ATTEND: Instances.attend,
    What.START: Instances.start,
    What.STOP: Instances.stop,
    What.DESTROY: Instances.remove,
    What.MOVE: Instances.vacate,
    What.CLEAN: Instances.remove,
}
"""Who does what a node has to be asked for."""

PATIENCE: dict[What, ActivityConfig] = {What.ATTEND: ATTENDING, What.CLEAN: CLEANING}
"""With whatever else, as with anything on a node."""


class Hand(NamedTuple):
    """What a node is being asked at the moment."""

    errand: Errand
    task: "asyncio.Task[bool | None]"


@workflow.defn
class RunInstance:
    """Asks what is due for its instance, has it done, and asks again. What needs no node asked is
    done with the question: fifty instances of a lost node are placed anew in a moment.

    It knows nothing but the instance's uid, and decides nothing: whatever becomes of it, another
    under the same id goes on where it was. What is under way goes on while something is looked up,
    and is put down once something else is due. A copy that could not be removed is tried again
    beside it."""

    def __init__(self) -> None:
        self._nudges = 0
        self._hand: Hand | None = None
        self._beside: Hand | None = None
        workflow.set_signal_handler(NUDGE, self._hear)

    @workflow.run
    async def run(self, uid: InstanceUid) -> None:
        for _ in range(ERRANDS_PER_RUN):
            nudges = self._nudges
            errand = await book(Placing.consider, uid)
            if errand.what is What.OVER:
                break
            if errand.beside is not None and self._beside is None:
                self._beside = self._begun(errand.beside)
            if errand.what in BOOKED:  # said to workers of before, whose histories are replayed
                await self._put_down()
                await book(Placing.settle, errand)
            elif errand.what is What.WAIT:
                await self._put_down()
                await self._news(nudges, errand)
            else:
                await self._have_done(errand, nudges)
            if self._beside is not None and self._beside.task.done():
                beside, self._beside = self._beside, None
                await self._book(beside)
            if workflow.info().is_continue_as_new_suggested():
                break
        await self._put_down()
        await _let_go(self._beside)
        if errand.what is not What.OVER:
            workflow.continue_as_new(uid)

    async def _have_done(self, errand: Errand, nudges: int) -> None:
        """Ask the node, unless it is being asked already, and wait until that is done or there is
        news."""
        if self._hand is None or not self._hand.errand.is_same(errand):
            await self._put_down()
            self._hand = self._begun(errand)
        hand = self._hand
        await self._news(nudges, errand)
        if hand.task.done():
            self._hand = None
            await self._book(hand)

    def _begun(self, errand: Errand) -> Hand:
        return Hand(errand, asyncio.create_task(self._ask(errand)))

    async def _ask(self, errand: Errand) -> bool | None:
        how = PATIENCE.get(errand.what, ON_A_NODE)
        config: ActivityConfig = {**how, "task_queue": queue("instances")}
        answer: bool | None = await workflow.execute_activity_method(
            HANDS[errand.what], errand, **config
        )
        return answer

    async def _book(self, hand: Hand) -> None:
        try:
            answer = hand.task.result()
        except ActivityError as error:
            stumble = Stumble(errand=hand.errand, failure=understood(error))
            await book(Placing.stumbled, stumble)
            return
        await book(Placing.done, Outcome(errand=hand.errand, kept=bool(answer)))
        if hand.errand.what is What.ATTEND:  # it ends when there is something new in the row
            await workflow.sleep(FIRST_LOOK)

    async def _put_down(self) -> None:
        """Leave what is under way. Its node goes on as it was, and what is still said is late."""
        hand, self._hand = self._hand, None
        await _let_go(hand)

    async def _news(self, nudges: int, errand: Errand) -> None:
        """Wait until there is something new, or something to be done."""
        patience = INSTANCE_GLANCE
        if errand.in_seconds is not None:
            patience = min(patience, timedelta(seconds=errand.in_seconds))
        elif errand.until is not None:
            patience = min(patience, max(errand.until - workflow.now(), timedelta(0)))
        hands = [hand for hand in (self._hand, self._beside) if hand is not None]
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._nudges > nudges or any(hand.task.done() for hand in hands),
                timeout=patience + FIRST_LOOK,
            )

    def _hear(self) -> None:
        self._nudges += 1


async def _let_go(hand: Hand | None) -> None:
    if hand is None:
        return
    hand.task.cancel()
    await ended([hand.task])
    if not hand.task.cancelled():
        hand.task.exception()  # that it came to nothing is nobody's news any more
