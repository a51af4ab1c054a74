"""The logbook: every hand writes its own line, before it acts and before it reports.

An interceptor around all hands. Before the work it marks that the step begins, and learns there
whether its operation may still act; after the work it marks how it ended, and only then does
Temporal hear of it. So no step that is done is unknown to the rows, whatever process dies, and a
leftover of an operation that is over touches nothing. While the hand works it heartbeats, which is
how a cancel finds it."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol

import structlog
from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from activities.errors import TRIED_AGAIN, soon, told
from activities.waiting import beating
from domain.errors import DomainError, Unavailable
from domain.machine import Machine, Sighting
from domain.operation import STOPPED, Mark, OperationId, StepKey
from domain.ports import Kubelet

log = structlog.get_logger()

ID_LENGTH = 36

WRITE_AGAIN_SECONDS = 2.0
"""Between two tries of a line while the database is away."""

SPARE = timedelta(seconds=45)
"""So long before an attempt's time is up a line is tried for the last time, which may take as long
as the database may take to answer."""


class MarksPort(Protocol):
    """Where marks are written."""

    async def make(self, mark: Mark) -> None: ...


class Logbook(Interceptor):
    def __init__(self, marks: MarksPort) -> None:
        self._marks = marks

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Hand(next, self._marks)


class _Hand(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, marks: MarksPort) -> None:
        super().__init__(next)
        self._marks = marks

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            if activity.info().is_local or not _belongs_to_operation():
                return await self.next.execute_activity(input)
            return await self._witnessed(input)
        except DomainError as error:
            pause = soon(error, activity.info())
            # all of it is in there, and causes may quote secrets
            raise told(error, pause) from None

    async def _witnessed(self, input: ExecuteActivityInput) -> Any:
        began = monotonic()
        await self._write(began, Sighting.BEGAN)
        try:
            async with beating():
                answer = await self.next.execute_activity(input)
        except DomainError as error:
            await self._stumbled(
                note=error.message,
                final=error.kind not in TRIED_AGAIN,
                last=_is_last_try(),
                status=error.facts.get("status", ""),
            )
            raise
        except asyncio.CancelledError:
            await self._stumbled(note=STOPPED)
            raise
        except Exception as error:
            log.exception("a hand failed in a way nobody foresaw", step=activity.info().activity_id)
            await self._stumbled(note=f"{type(error).__name__}: {error}", last=_is_last_try())
            raise
        await self._write(
            began,
            Sighting.ENDED,
            learnt=answer if isinstance(answer, Machine) else None,
            kubelet=answer.version if isinstance(answer, Kubelet) else "",
        )
        return answer

    async def _write(self, began: float, sighting: Sighting, **seen: Any) -> None:
        """Write a line that the hand cannot do without. While the database is away this waits for
        it, nearly as long as the attempt may take: a failed attempt would be followed by a pause
        that may be many minutes long, and go on long after the database is back."""
        try:
            return await self._mark(sighting, **seen)
        except Unavailable:
            if _is_late(began):
                raise
        async with beating():
            while True:
                await asyncio.sleep(WRITE_AGAIN_SECONDS)
                try:
                    return await self._mark(sighting, **seen)
                except Unavailable:
                    if _is_late(began):
                        raise

    async def _stumbled(self, **seen: Any) -> None:
        """The stumble itself must be told: a line that cannot be written does not hide it."""
        with suppress(DomainError):
            await self._mark(Sighting.STUMBLED, **seen)

    async def _mark(self, sighting: Sighting, **seen: Any) -> None:
        info = activity.info()
        await self._marks.make(
            Mark(
                operation=_operation(),
                step=StepKey.parse(info.activity_id),
                attempt=info.attempt,
                sighting=sighting,
                **seen,
            )
        )


def _is_late(began: float) -> bool:
    limit = activity.info().start_to_close_timeout
    return limit is not None and monotonic() - began > (limit - SPARE).total_seconds()


def _is_last_try() -> bool:
    """Whether Temporal gives the step up after this attempt."""
    info = activity.info()
    most = info.retry_policy.maximum_attempts if info.retry_policy else 0
    return 0 < most <= info.attempt


def _belongs_to_operation() -> bool:
    return (activity.info().workflow_id or "").startswith(("op-", "m-"))


def _operation() -> OperationId:
    """Workflows and their children end their id with their operation's."""
    return OperationId((activity.info().workflow_id or "")[-ID_LENGTH:])
