"""What people wish of an operation while it runs, as far as its workflows know.

A wish is a row. Whoever writes it nudges the operation's workflow, which looks, and nudges its
children. A nudge that is lost costs a minute, since each looks by itself. Every step asks here
before it is taken, and no undo does; what is known here too late, the row itself refuses."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.workflow import ChildWorkflowHandle

from activities.steering import Arrival, Glance, Steering
from domain.operation import NUDGE, Cancelled, OperationId
from workflows.books import book
from workflows.policies import FIRST_GLANCE, RAREST_GLANCE
from workflows.together import told_to_stop

ID_LENGTH = 36


class Helm:
    """One workflow's, found by `helm`."""

    def __init__(self) -> None:
        # Workflows and their children end their id with their operation's. One that a sweep has
        # started is its child as well, so parents say nothing here.
        name = workflow.info().workflow_id
        self._operation = OperationId(name[-ID_LENGTH:])
        self._leads = name.startswith("op-")
        self._paused_since: datetime | None = None
        self._held = timedelta(0)
        self._looked = workflow.now()
        self._nudges = self._heeded = 0
        self._looking = asyncio.Lock()
        self._children: list[ChildWorkflowHandle[Any, Any]] = []  # in an order that replays
        self._errands: set[asyncio.Task[None]] = set()
        workflow.set_signal_handler(NUDGE, self._hear)

    @property
    def paused(self) -> bool:
        return self._paused_since is not None

    @property
    def held(self) -> timedelta:
        """How long we have been paused, in all."""
        since = self._paused_since
        return self._held + (workflow.now() - since if since is not None else timedelta(0))

    def told(self, *, paused: bool) -> None:
        """Take in what the row says."""
        self._looked = workflow.now()
        self._held = self.held
        self._paused_since = workflow.now() if paused else None

    def mistaken(self) -> None:
        """We know less than the row does: look before the next step."""
        self._nudges += 1

    async def clear(self) -> None:
        """Wait until nothing holds the operation. Whoever is told to stop does not wait on."""
        if not (self.paused or self._should_look):
            return
        async with self._looking:  # one waits for all, so that each look is made once
            patience = FIRST_GLANCE
            while (self.paused or self._should_look) and not told_to_stop():
                if not self._should_look:
                    await self._news(self._nudges, patience)
                    patience = min(patience * 2, RAREST_GLANCE)
                await self._look()

    async def approved(self, gate: str) -> None:
        """Wait before a gate until somebody opens it. If nobody does in time, the operation has
        been called off and this raises it: as any cancel it undoes what has to be undone."""
        patience = FIRST_GLANCE
        while not told_to_stop():
            nudges = self._nudges
            passage = await book(Steering.arrive, Arrival(operation=self._operation, gate=gate))
            if passage.open:
                return
            if passage.lapsed:
                failure = Cancelled.by(f"the gate before {gate}")
                raise ApplicationError(
                    failure.message, failure.model_dump(), type=failure.kind, non_retryable=True
                )
            left = timedelta(seconds=passage.left_seconds)
            await self._news(nudges, min(patience, left))
            patience = min(patience * 2, RAREST_GLANCE)
        raise asyncio.CancelledError

    @contextmanager
    def passing_on_to(self, child: ChildWorkflowHandle[Any, Any]) -> Iterator[None]:
        """Nudge a child whenever we are, as long as it runs."""
        self._children.append(child)
        if self.paused or self._should_look:  # it was started a moment before we knew
            self._spawn(child)
        try:
            yield
        finally:
            self._children.remove(child)

    @property
    def _should_look(self) -> bool:
        return self._nudges > self._heeded or workflow.now() - self._looked >= FIRST_GLANCE

    async def _look(self) -> None:
        self._heeded = self._nudges
        glance = Glance(operation=self._operation, heeds=self._leads)
        wishes = await book(Steering.look, glance)
        self.told(paused=wishes.paused)

    async def _news(self, nudges: int, patience: timedelta) -> None:
        """Wait for another nudge after so many, or for so long."""
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._nudges > nudges, timeout=patience)

    def _hear(self) -> None:
        self._nudges += 1
        self._errands.add(errand := asyncio.create_task(self._heed()))
        errand.add_done_callback(self._errands.discard)
        for child in self._children:
            self._spawn(child)

    async def _heed(self) -> None:
        """Look at once, also while no step is due: so the row knows that we know."""
        async with self._looking:
            if self._nudges > self._heeded:
                await self._look()

    def _spawn(self, child: ChildWorkflowHandle[Any, Any]) -> None:
        self._errands.add(errand := asyncio.create_task(_nudge(child)))
        errand.add_done_callback(self._errands.discard)


async def _nudge(child: ChildWorkflowHandle[Any, Any]) -> None:
    with suppress(FailureError):  # it has ended meanwhile
        await child.signal(NUDGE)


_OF: WeakKeyDictionary[object, Helm] = WeakKeyDictionary()


def helm() -> Helm:
    """The helm of the workflow that runs."""
    instance = workflow.instance()
    if instance not in _OF:
        _OF[instance] = Helm()
    return _OF[instance]
