"""Temporal's patience made short: a worker's death is noticed, and a try repeated, in seconds.

A module of its own, since the sandbox loads it anew for every workflow."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ActivityHandle, ChildWorkflowHandle

HEARTBEAT = timedelta(seconds=2)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=0.1), timedelta(seconds=1)
TASK = timedelta(seconds=2)
"""How long a workflow's task may be with a worker that is dead."""


class Hurry(Interceptor):
    """Shortens what a workflow asks for. Never how often it is tried, nor how long it may take."""

    def workflow_interceptor_class(
        self, _: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:
        if input.heartbeat_timeout is not None:
            input.heartbeat_timeout = HEARTBEAT
        usual = input.retry_policy or RetryPolicy()
        input.retry_policy = RetryPolicy(
            initial_interval=FIRST_PAUSE,
            maximum_interval=LONGEST_PAUSE,
            maximum_attempts=usual.maximum_attempts,
        )
        return self.next.start_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> ChildWorkflowHandle[Any, Any]:
        input.task_timeout = TASK
        return await self.next.start_child_workflow(input)
