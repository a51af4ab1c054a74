"""Taking back what was done, when what was begun does not end well."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ActivityConfig

from activities.verbs import name_of
from workflows.policies import STUBBORN
from workflows.steps import Named, Subject, undo
from workflows.together import ended, told_to_stop


class _Undo(NamedTuple):
    name: str
    take_back: Callable[[], Awaitable[Any]]
    decides: bool = False


class Unwind:
    """Collects undo steps and runs them backwards if the block does not end well.

    Add the undo *before* doing the step. A step that failed may have half happened, so its undo
    must run too; that is why every undo in `activities/` treats "nothing there" as success.

    The undos of one subject run one after the other, the last added first; different subjects are
    undone side by side. A second cancel does not stop them. An undo added with `COURTESY` may fail;
    one added as `STUBBORN`, which is the rule, is tried until it succeeds."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[_Undo]] = {}

    def add(
        self,
        step: Callable[[Any, Subject], Awaitable[Any]],
        subject: Subject,
        how: ActivityConfig = STUBBORN,
        *,
        turn: int = 1,
        decides: bool = False,
    ) -> None:
        """Remember how to take a step back. If one that `decides` fails, what was added for this
        subject before it stays as it is."""
        take_back = partial(undo, step, subject, how, turn=turn)
        self._lanes.setdefault(subject.named, []).append(_Undo(name_of(step), take_back, decides))

    def add_all(
        self, subject: Named, work: Callable[[], Awaitable[None]], *, decides: bool = False
    ) -> None:
        """Remember several steps back, of which one says whether the next is needed."""
        undone = _Undo(work.__name__, work, decides)
        self._lanes.setdefault(subject.named, []).append(undone)

    def forget(self, subject: Subject, *, steps: int = 1) -> None:
        """What was added last for this subject has been taken back already, or never will be."""
        for _ in range(steps):
            self._lanes[subject.named].pop()

    def keep(self, subject: Subject) -> None:
        """What was done for this subject stays, whatever becomes of the rest."""
        self._lanes.pop(subject.named, None)

    async def take_back(self, subject: Subject) -> bool:
        """Take back at once what was done for this subject; whether that went on to the end, and
        did not fail there. Being told to stop meanwhile is heeded afterwards."""
        walk = asyncio.create_task(self._walk(self._lanes.pop(subject.named, [])))
        await ended([walk])
        if told_to_stop():
            raise asyncio.CancelledError
        return walk.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, FailureError | asyncio.CancelledError):
            # Also what tells a cancel from an eviction, which ends here: an evicted workflow may
            # say nothing any more, and must not begin to undo.
            workflow.set_current_details("undoing")
            await ended([asyncio.create_task(self._walk(lane)) for lane in self._lanes.values()])

    async def _walk(self, lane: list[_Undo]) -> bool:
        well = True
        while lane:
            step = lane.pop()
            try:
                await step.take_back()
                well = True
            except FailureError as error:
                workflow.logger.warning("left behind: %s: %s", step.name, error)
                well = False
                if step.decides:
                    lane.clear()
        return well
