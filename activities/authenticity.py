"""Whether a step was asked for by a workflow of ours.

Payloads are opened before a step begins, by `workflows/sealed.py`. What must not be taken arrives
here as a `Refused` instead of an argument, and the step is not done: a refusal raised where
payloads are opened would be tried again for ever."""

from dataclasses import dataclass
from typing import Any

import structlog
from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.errors import told
from domain.errors import DomainError, Failed, Unavailable

log = structlog.get_logger()


@dataclass(frozen=True)
class Refused:
    """A payload that is not taken, and why."""

    message: str
    reason: str
    do: str
    passing: bool = False
    """Another try, or another worker, may be able to take it."""

    def error(self) -> DomainError:
        kind = Unavailable if self.passing else Failed
        return kind(self.message, reason=self.reason, do=self.do)


UNPROVED = Refused(
    "the step came without a sealed argument",
    reason="PAYLOAD_NOT_SEALED",
    do="nothing of Windlass asks for a step so: find out who writes to Temporal",
)


class Guard(Interceptor):
    """Stands around all other interceptors for what is final, so that a stranger's step leaves no
    mark in an operation; and within them for what passes, so that the operation says what it waits
    for."""

    def __init__(self, *, strict: bool, passing: bool = False) -> None:
        """`strict`: a step without any argument, which nothing proves, is refused."""
        self._strict = strict
        self._passing = passing

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Guarded(next, strict=self._strict, passing=self._passing)


class _Guarded(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, *, strict: bool, passing: bool) -> None:
        super().__init__(next)
        self._strict = strict
        self._passing = passing

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        refused = self._refused(input)
        if refused is None or refused.passing is not self._passing:
            return await self.next.execute_activity(input)
        error, info = refused.error(), activity.info()
        log.warning(
            "step refused",
            step=info.activity_type,
            workflow=info.workflow_id,
            reason=refused.reason,
            error=error.message,
        )
        raise error if self._passing else told(error)

    def _refused(self, input: ExecuteActivityInput) -> Refused | None:
        info = activity.info()
        for said in (*input.args, *info.heartbeat_details):
            if isinstance(said, Refused):
                return said
        return UNPROVED if self._strict and not input.args and not info.is_local else None
