"""Starting the work behind an accepted change, and telling it to look or to stop.

Committed is accepted: whatever goes wrong here, the caller has its answer, and a sweep starts what
was recorded and never started."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDReusePolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RetryConfig, RPCError, RPCStatusCode

from domain.operation import NUDGE, Kind, Operation, OperationId, Stage
from workflows.connecting import PLAIN, Trust

LAUNCH_SECONDS = 1.0
ROUSE_SECONDS = 5.0
"""As often as the sweep rouses by itself. Nobody waits behind it, and what is left to the sweep
comes that much later."""

CHECK_SECONDS = 1.0

AT_ONCE = 16
"""Calls to Temporal at the same time; it starts some 200 workflows a second whatever we do."""

WAITING = 1000
"""Launches that may wait for their turn. What a greater burst leaves behind is the sweep's."""

DRAIN_SECONDS = 3.0

BRISK = RetryConfig(
    initial_interval_millis=50,
    max_interval_millis=300,
    max_elapsed_time_millis=1500,
    max_retries=4,
)
"""Callers wait behind this client; workers have a patient one."""

PRIORITIES = {Kind.DELETE_CLUSTER: 1}
USUAL_PRIORITY = 3
"""Deletes give machines back, so they go first."""

AWAY = (RPCError, RuntimeError, TimeoutError)
"""What may come of a call to Temporal. A client that never connected raises RuntimeError."""

log = structlog.get_logger()


async def client(
    address: str,
    namespace: str,
    converter: DataConverter = pydantic_data_converter,
    trust: Trust = PLAIN,
) -> Client:
    """A client that connects when it is first needed: the API starts and reads without Temporal."""
    return await Client.connect(
        address,
        namespace=namespace,
        lazy=True,
        retry_config=BRISK,
        connect_timeout=timedelta(seconds=1),
        data_converter=converter,
        **trust.options(),
    )


class Launch:
    def __init__(self, client: Client, catalogue: Mapping[Kind, type[Any]], queue: str) -> None:
        self._client = client
        self._catalogue = catalogue
        self._queue = queue
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        """What was asked for once more after its call had begun, by name."""
        self._troubles: set[str] = set()
        """What has been said of Temporal since it last took something."""

    def soon(self, operation: Operation) -> None:
        """Start the work behind the caller's back. One that has been taken up needs no start."""
        if operation.stage is Stage.REQUESTED:
            self._spawn(f"launch {operation.id}", lambda: self.launch(operation))

    def cancel_soon(self, operation: OperationId) -> None:
        """Tell the work to stop, behind the caller's back."""
        self._spawn(f"cancel {operation}", lambda: self.cancel(operation))

    async def launch(self, operation: Operation) -> None:
        """Start the work now if we can; if not, the sweep will. It is accepted either way."""
        try:
            await asyncio.wait_for(self._start(operation), timeout=LAUNCH_SECONDS)
        except AWAY as error:
            self._complain("start", operation.id, error)
        else:
            self._troubles.clear()

    async def cancel(self, operation: OperationId) -> None:
        """Tell the work to stop now if we can; if not, the sweep tells it. It may never have
        started: then the row tells it when it does."""
        handle = self._client.get_workflow_handle(workflow_id(operation))
        try:
            await asyncio.wait_for(handle.cancel(), timeout=LAUNCH_SECONDS)
        except AWAY as error:
            if not _is_missing(error):
                self._complain("cancel", operation, error)

    def nudge_soon(self, operation: OperationId) -> None:
        """Tell the work to look at its row, behind the caller's back."""
        self._spawn(f"nudge {operation}", lambda: self.nudge(operation))

    async def nudge(self, operation: OperationId) -> None:
        """Tell the work to look at its row now if we can; if not, the sweep tells it."""
        handle = self._client.get_workflow_handle(workflow_id(operation))
        try:
            await asyncio.wait_for(handle.signal(NUDGE), timeout=LAUNCH_SECONDS)
        except AWAY as error:
            if not _is_missing(error):
                self._complain("nudge", operation, error)

    def rouse_soon(self, flow: type[Any], name: str, fact: str) -> None:
        """Have a workflow look that knows nothing but what it looks after, behind the caller's
        back. One that is not there is started."""
        self._spawn(f"rouse {name}", lambda: self.rouse(flow, name, fact))

    async def rouse(self, flow: type[Any], name: str, fact: str) -> None:
        """Have it look now if we can; if not, the sweep will."""
        starting = self._client.start_workflow(
            flow.run,
            fact,
            id=name,
            task_queue=self._queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            start_signal=NUDGE,
        )
        try:
            await asyncio.wait_for(starting, timeout=ROUSE_SECONDS)
        except AWAY as error:
            self._complain("rouse", name, error)
        else:
            self._troubles.clear()

    async def trouble(self) -> str:
        """Why Temporal takes no work, in a few words. Empty: it does."""
        namespace = self._client.namespace
        look = DescribeNamespaceRequest(namespace=namespace)
        try:
            await asyncio.wait_for(
                self._client.workflow_service.describe_namespace(look), CHECK_SECONDS
            )
        except AWAY as error:
            return f"there is no namespace {namespace}" if _is_missing(error) else "away"
        return ""

    async def close(self) -> None:
        """Let what was begun end, for a moment. The sweep of another process does the rest."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks.values(), timeout=DRAIN_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _complain(self, what: str, subject: str, error: Exception) -> None:
        """Say once why Temporal did not do as told, until it takes work again: thousands may fail
        for one reason."""
        said = _said(error)
        trouble = f"{what} {said.partition(':')[0]}"
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            log.warning("not taken by temporal", what=what, subject=subject, error=said)

    async def _start(self, operation: Operation) -> None:
        with suppress(WorkflowAlreadyStartedError):
            await self._client.start_workflow(
                self._catalogue[operation.kind].run,
                operation.id,
                id=workflow_id(operation.id),
                task_queue=self._queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                priority=Priority(priority_key=PRIORITIES.get(operation.kind, USUAL_PRIORITY)),
            )

    def _spawn(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do it in the background, once at a time under one name. What is asked for while its call
        is under way is done once more after it: the call may have been heard before there was
        anything to see."""
        if name in self._tasks:
            self._again.add(name)
            return
        if len(self._tasks) >= WAITING:
            log.info("left to the sweep", what=name)
            return
        task = asyncio.create_task(self._work_off(name, work), name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._over(name))

    async def _work_off(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            async with self._turns:
                self._again.discard(name)  # a call that has not begun will be heard after all this
                try:
                    await work()
                except Exception:
                    log.exception("launch went wrong", what=name)
            if name not in self._again:
                return

    def _over(self, name: str) -> None:
        self._tasks.pop(name, None)
        self._again.discard(name)


def _is_missing(error: Exception) -> bool:
    """Whether what is named is not there: a workflow or, for every call, the namespace."""
    return isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND


def _said(error: Exception) -> str:
    """The kind of error, and after a colon what there is to say of it."""
    if isinstance(error, RPCError):
        return f"{error.status.name}: {error.message}"
    return str(error) or type(error).__name__


def workflow_id(operation: OperationId) -> str:
    """One id per operation, for ever: it is what lets only one of several launches through."""
    return f"op-{operation}"
