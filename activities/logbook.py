"""The logbook: every hand writes its own line, before it acts and before it reports.

An interceptor around all hands. Before the work it marks that the step begins, and learns there
whether its operation may still act; after the work it marks how it ended, and only then does
Temporal hear of it. So no step that is done is unknown to the rows, whatever process dies, and a
leftover of an operation that is over touches nothing. While the hand works it heartbeats, which is
how a cancel finds it."""

import asyncio
from contextlib import suppress
from typing import Any, Protocol

import structlog
from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from activities.errors import TRIED_AGAIN, told
from activities.waiting import beating
from domain.errors import DomainError
from domain.machine import Machine, Sighting
from domain.operation import Mark, OperationId, StepKey
from domain.ports import Kubelet

log = structlog.get_logger()

ID_LENGTH = 36


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
            raise told(error) from None  # all of it is in there, and causes may quote secrets

    async def _witnessed(self, input: ExecuteActivityInput) -> Any:
        await self._mark(Sighting.BEGAN)
        try:
            async with beating():
                answer = await self.next.execute_activity(input)
        except DomainError as error:
            await self._stumbled(
                note=error.message,
                final=error.kind not in TRIED_AGAIN,
                status=error.facts.get("status", ""),
            )
            raise
        except asyncio.CancelledError:
            await self._stumbled(note="stopped")
            raise
        except Exception as error:
            log.exception("a hand failed in a way nobody foresaw", step=activity.info().activity_id)
            await self._stumbled(note=f"{type(error).__name__}: {error}")
            raise
        await self._mark(
            Sighting.ENDED,
            learnt=answer if isinstance(answer, Machine) else None,
            kubelet=answer.version if isinstance(answer, Kubelet) else "",
        )
        return answer

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


def _belongs_to_operation() -> bool:
    return (activity.info().workflow_id or "").startswith(("op-", "m-"))


def _operation() -> OperationId:
    """Workflows and their children end their id with their operation's."""
    return OperationId((activity.info().workflow_id or "")[-ID_LENGTH:])
