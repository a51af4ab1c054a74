"""All instances of a node: orders come in here, and are fenced by their incarnation."""

import asyncio
import time
from collections import defaultdict

import structlog

from agent.archive import Archive
from agent.bell import Bell
from agent.carrying import Carried
from agent.images import Images
from agent.ledger import Ledger
from agent.orders import FINAL, Order, Record
from agent.runtime import Output, Runtime
from domain.agents import STALE
from domain.errors import Conflict, DomainError, NotFound
from domain.frozen import Frozen
from domain.happening import SECOND_NS
from domain.pod import PodState

TICK_SECONDS = 1.0
TIDY_SECONDS = 60.0

ENDED = frozenset({PodState.EXITED, PodState.ABORTED_PREPARE})

log = structlog.get_logger()


class Terms(Frozen):
    """How long things are kept here, in seconds."""

    linger: float = 60.0
    """What ended by itself, before it is removed."""
    records: float = 86_400.0
    """What is known of pods that are gone, and what they wrote."""
    images: float = 86_400.0
    """Images that nobody asks for."""


class Instances:
    def __init__(
        self,
        node: str,
        runtime: Runtime,
        ledger: Ledger,
        archive: Archive,
        images: Images,
        bell: Bell,
        terms: Terms,
    ) -> None:
        self._node, self._runtime, self._ledger = node, runtime, ledger
        self._archive, self._images, self._bell, self._terms = archive, images, bell, terms
        self._carried: dict[str, Carried] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unmade: dict[str, tuple[int, float]] = {}
        """Incarnations that were to be destroyed before they were made, and when."""
        self._lingering: set[str] = set()
        """Pods that ended by themselves and that nobody wants any more. Their time is not up."""
        self.draining = False

    async def adopt(self) -> None:
        """Take up everything that was here before. What runs and is nobody's is removed."""
        records = self._ledger.records()
        known = {record.pod for record in records if record.pod_state is not PodState.GARBAGE}
        for seen in await self._runtime.list():
            if seen.pod not in known:
                log.warning("a pod that is nobody's is removed", pod=seen.pod)
                await self._runtime.remove(seen.pod)
        for record in records:
            self._carry(record).begin()

    async def run(self, order: Order) -> tuple[Carried, bool]:
        """Have an incarnation here, and say whether it is new. Asking again for one that is here
        takes it up again; an older one is refused, and a newer one finds the older gone."""
        async with self._turns[order.instance]:
            there = self._carried.get(order.instance)
            if there:
                if order.plain:
                    order = _succeeding(order, there)
                _fence(there.record, order.incarnation)
                if there.record.order.incarnation == order.incarnation:
                    return there, False
            unmade, _ = self._unmade.get(order.instance, (-1, 0.0))
            if not order.plain and order.incarnation <= unmade:
                raise _stale(order.instance, f"was given up, up to its incarnation {unmade}")
            if self.draining:
                raise Conflict(
                    f"node {self._node} is draining",
                    reason="NODE_DRAINING",
                    do="place the instance on another node",
                )
            if there:
                await there.destroy()
                self._lingering.discard(there.record.pod)
            carried = self._carry(Record(order=order))
            self._ledger.keep(carried.record)
            carried.begin()
            return carried, True

    def get(self, instance: str, incarnation: int | None = None) -> Carried:
        """One that is here. With an incarnation, that one and no other."""
        there = self._carried.get(instance)
        if there is None:
            raise NotFound(
                f"there is no instance {instance} on this node",
                subject=instance,
                reason="INSTANCE_NOT_FOUND",
                do="windlass instance list shows where it is",
            )
        if incarnation is not None:
            _fence(there.record, incarnation)
            if incarnation > there.record.order.incarnation:
                raise NotFound(
                    f"instance {instance} is not here in its incarnation {incarnation}",
                    subject=instance,
                    reason="INSTANCE_NOT_FOUND",
                    do="create it",
                )
        return there

    async def destroy(self, instance: str, incarnation: int | None) -> None:
        """Leave nothing of it, nor of an older one, which whoever gave this order had given up.
        What is not here is as good as destroyed, and is not made any more: the order for it may
        still be on its way. What ended by itself holds nothing that others may want, and stays to
        be looked at for as long as it lingers."""
        async with self._turns[instance]:
            there = self._carried.get(instance)
            if there and incarnation is not None:
                _fence(there.record, incarnation)
            if incarnation is not None:
                self._unmade[instance] = (incarnation, time.monotonic())
            ran = there is not None and there.record.pod_state is PodState.EXITED
            if there and ran and incarnation is not None and self._lingers(there):
                self._lingering.add(there.record.pod)
            elif there:
                await there.destroy()

    async def exec(self, instance: str, command: list[str], timeout_seconds: float) -> Output:
        pod = self.get(instance).record.pod
        return await self._runtime.exec(pod, command, timeout_seconds)

    def held(self) -> list[Record]:
        """Everything that is here and that somebody wants."""
        found = (carried.record for _, carried in sorted(self._carried.items()))
        return [
            record
            for record in found
            if record.pod_state is not PodState.GARBAGE and record.pod not in self._lingering
        ]

    async def drain(self, grace_seconds: float) -> None:
        """Take nothing more, and stop all that runs."""
        self.draining = True
        running = [each for each in self._carried.values() if each.state not in FINAL]
        done = await asyncio.gather(
            *(each.stop(grace_seconds) for each in running), return_exceptions=True
        )
        for error in done:
            if isinstance(error, BaseException):
                log.warning("an instance did not stop", error=str(error))

    async def leave(self) -> None:
        """Let go of all. What runs, runs on, and is adopted by whoever comes next."""
        await asyncio.gather(*(each.leave() for each in self._carried.values()))

    async def tidy(self) -> None:
        """Clear away what ended, for as long as this runs."""
        tidied = 0.0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for carried in list(self._carried.values()):
                await self._clear(carried)
            if time.monotonic() - tidied > TIDY_SECONDS:
                tidied = time.monotonic()
                await self._images.drop_unused(self._terms.images)
                self._forget()

    async def _clear(self, carried: Carried) -> None:
        record = carried.record
        if record.pod_state is PodState.GARBAGE:
            self._lingering.discard(record.pod)
        elif carried.state in FINAL and record.pod_state in ENDED and not self._lingers(carried):
            async with self._turns[record.instance]:
                if self._carried.get(record.instance) is not carried:
                    return
                try:
                    await carried.clear()
                except DomainError as error:
                    log.warning("a pod is not cleared away", pod=record.pod, error=error.message)

    def _lingers(self, carried: Carried) -> bool:
        """Whether it ended by itself, and that is not long ago."""
        record = carried.record
        if carried.state not in FINAL or record.pod_state not in ENDED:
            return False
        return (time.time_ns() - record.ended_ns) / SECOND_NS <= self._terms.linger

    def _forget(self) -> None:
        edge = time.time_ns() - int(self._terms.records * SECOND_NS)
        for pod in self._ledger.forget(edge):
            self._archive.forget(pod)
        for instance, carried in list(self._carried.items()):
            gone = carried.record.pod_state is PodState.GARBAGE
            if gone and carried.record.ended_ns < edge:
                self._ledger.drop(instance)
                del self._carried[instance]
                self._turns.pop(instance, None)
        for instance, (_, since) in list(self._unmade.items()):
            if time.monotonic() - since > self._terms.records:
                del self._unmade[instance]
                if instance not in self._carried:
                    self._turns.pop(instance, None)

    def _carry(self, record: Record) -> Carried:
        carried = Carried(
            record,
            self._node,
            self._runtime,
            self._ledger,
            self._archive,
            self._images.fetch,
            self._bell.ring,
        )
        self._carried[record.instance] = carried
        return carried


def _fence(there: Record, incarnation: int) -> None:
    if incarnation < there.order.incarnation:
        here = f"is here in its incarnation {there.order.incarnation}, and {incarnation} is older"
        raise _stale(there.instance, here)


def _stale(instance: str, why: str) -> Conflict:
    return Conflict(
        f"instance {instance} {why}",
        subject=instance,
        reason=STALE,
        do="nothing: whoever gave this order was replaced",
    )


def _succeeding(order: Order, there: Carried) -> Order:
    """Whoever knows no incarnations means the one that is here, or, after its end, the next."""
    now = there.record.order.incarnation
    return order.model_copy(update={"incarnation": now + (there.state in FINAL)})
