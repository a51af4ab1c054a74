"""Doing things side by side, and stopping all of them.

A hand or a child that waits out its cancellation and ends well swallows the cancel: its lane would
go on as if nobody had called it off. So whoever stops lanes also leaves word, and every step asks
for it (`told_to_stop`) once it is done."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from temporalio import workflow

Answer = TypeVar("Answer")


class Walk:
    """Lanes walked side by side, and whether they were called off, themselves or with the lane that
    they set out from."""

    def __init__(self) -> None:
        self._around = _walk.get()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped or (self._around is not None and self._around.stopped)

    def start(self, work: list[Coroutine[Any, Any, Answer]]) -> list[asyncio.Task[Answer]]:
        token = _walk.set(self)  # tasks take the context in which they are made with them
        try:
            return [asyncio.create_task(each) for each in work]
        finally:
            _walk.reset(token)

    async def stop(self, tasks: list[asyncio.Task[Answer]]) -> None:
        """Call all lanes off and wait until each has ended."""
        self._stopped = True
        for task in tasks:
            task.cancel()
        await ended(tasks)


_walk: ContextVar[Walk | None] = ContextVar("walk", default=None)


def told_to_stop() -> bool:
    """Whether the workflow was cancelled, or the lanes we walk with were called off."""
    walk = _walk.get()
    return workflow.cancellation_reason() is not None or (walk is not None and walk.stopped)


async def ended(tasks: list[asyncio.Task[Answer]]) -> None:
    """Wait until all have ended, however; being told to stop meanwhile changes nothing."""
    while pending := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await workflow.wait(pending)


async def together(*work: Coroutine[Any, Any, Answer]) -> list[Answer]:
    """Run all; when one fails, cancel the rest and wait for them before raising that failure.

    `asyncio.gather` would return with the others still running, so an unwind could race a join.
    `asyncio.TaskGroup` would raise an ExceptionGroup, which Temporal takes for a bug in the
    workflow and retries for ever."""
    walk = Walk()
    tasks = walk.start(list(work))
    try:
        for done in workflow.as_completed(tasks):
            await done
    except (Exception, asyncio.CancelledError):  # an eviction is neither, and must not be awaited
        await walk.stop(tasks)
        raise
    return [task.result() for task in tasks]
