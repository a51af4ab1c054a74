"""Hands on nodes: have an instance run, and listen; stop it, start it, take it away.

They are told which errand it is and nothing else: what the agent needs to know is read from the
rows when it is asked, so neither addresses nor variables enter a history, and what is not due any
more is left undone."""

import asyncio
from contextlib import aclosing

from temporalio import activity

from activities.waiting import beating
from domain.agents import STALE, Agents, Order
from domain.errand import Errand, What
from domain.errors import DomainError, Failed, Unavailable
from domain.instance import Phase, Report
from store.observing import Observing

BEAT_SECONDS = 3.0

CLEAN_SECONDS = 5.0
"""How long an agent may take to remove a copy that was given up. Somebody waits for that, and an
agent that hangs would keep them; one that is slow goes on, and is asked again."""


class Instances:
    def __init__(self, agents: Agents, observing: Observing) -> None:
        self._agents = agents
        self._observing = observing

    @activity.defn(name="instances.attend")
    async def attend(self, errand: Errand) -> None:
        """Have the instance run and write down what its node says, until it has ended or something
        else is due. Safe to repeat: an agent that has it goes on telling."""
        order = await self._observing.order(errand)
        if order is None:
            return
        listening = asyncio.create_task(self._listen(errand, order))
        stopping = asyncio.create_task(activity.wait_for_worker_shutdown())
        try:
            while not (listening.done() or stopping.done()):
                activity.heartbeat()
                await asyncio.wait(
                    [listening, stopping],
                    timeout=BEAT_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            if not listening.done():
                raise Unavailable("this worker goes down", reason="WORKER_STOPPING")
            listening.result()
        finally:
            for task in (listening, stopping):
                task.cancel()
            await asyncio.gather(listening, stopping, return_exceptions=True)

    @activity.defn(name="instances.start")
    async def start(self, errand: Errand) -> bool:
        """Start what was stopped and kept."""
        async with beating():
            if (order := await self._observing.order(errand)) is not None:
                await self._agents.start(order)
        return True

    @activity.defn(name="instances.stop")
    async def stop(self, errand: Errand) -> bool:
        """End it and keep what it ran in, if its agent can; whether it does."""
        async with beating():
            order = await self._observing.order(errand)
            return order is not None and await self._agents.stop(order)

    @activity.defn(name="instances.remove")
    async def remove(self, errand: Errand) -> bool:
        """End a copy and keep nothing of it. Nothing there is success."""
        async with beating():
            if (order := await self._observing.order(errand)) is not None:
                await self._removed(errand, order)
        return False

    @activity.defn(name="instances.vacate")
    async def vacate(self, errand: Errand) -> bool:
        """End it in its own time and keep nothing, so that it may run elsewhere."""
        async with beating():
            if (order := await self._observing.order(errand)) is not None:
                await self._agents.stop(order)
                await self._agents.destroy(order)
        return False

    async def _removed(self, errand: Errand, order: Order) -> None:
        seconds = CLEAN_SECONDS if errand.what is What.CLEAN else None
        try:
            async with asyncio.timeout(seconds):
                await self._agents.destroy(order)
        except TimeoutError as error:
            raise Unavailable(
                f"the agent of {order.node} did not remove it within {CLEAN_SECONDS:g} s",
                subject=order.node,
                reason="AGENT_SILENT",
            ) from error

    async def _listen(self, errand: Errand, order: Order) -> None:
        """Write down what is new. A node that never takes the instance up has refused it, whatever
        it says, unless it has a newer copy; once it has taken it up, only its lease tells that it
        is lost."""
        before, taken_up = None, order.taken_up
        try:
            async with aclosing(self._agents.run(order)) as reports:
                async for report in reports:
                    if _is_sample(report, before):
                        await self._observing.sample(errand, report)
                    elif not await self._observing.observe(errand, report):
                        return
                    taken_up, before = True, report
        except DomainError as error:
            if taken_up or error.reason == STALE:
                raise
            raise Failed(error.message, reason="NODE_REFUSED") from error
        raise Unavailable(
            f"the agent of {order.node} hung up without saying what became of it",
            reason="AGENT_HUNG_UP",
        )


def _is_sample(report: Report, before: Report | None) -> bool:
    """Whether it only tells once more that a copy runs, and what it uses now."""
    if before is None or not report.phase is before.phase is Phase.RUNNING:
        return False
    return report.says in ("", before.says)
