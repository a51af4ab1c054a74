"""Launches: what is accepted is started, once, and never at its caller's cost."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from time import perf_counter
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    SignalWorkflowInput,
    WorkflowExecutionDescription,
)
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from api import build
from api import launch as launching
from api import sweep as sweeping
from api.__main__ import Api
from api.launch import Launch, client, workflow_id
from api.meters import Meters
from api.sweep import Sweep
from domain.cluster import Phase
from domain.operation import Operation, OperationId
from protos.gen.kaas import api_pb2 as pb
from settings import Settings, Temporal
from store.engine import Database
from store.operations import Operations
from tests.api.caller import NOBODY, Caller, answered, under, wanted
from tests.api.hands import Hands
from tests.support.load import limit
from workflows.catalogue import CATALOGUE
from workflows.run_instance import RunInstance


@pytest.fixture
def address(temporal: WorkflowEnvironment) -> str:
    """Where Temporal is."""
    return temporal.client.service_client.config.target_host


@pytest.fixture
async def launch(address: str, queues: str) -> AsyncIterator[Launch]:
    launch = Launch(await client(address, "default"), CATALOGUE, f"{queues}workflows")
    yield launch
    await launch.close()


@pytest.fixture
async def away(queues: str) -> AsyncIterator[Launch]:
    """A launch with nobody at the other end."""
    launch = Launch(await client(NOBODY, "default"), CATALOGUE, f"{queues}workflows")
    yield launch
    await launch.close()


async def at_once() -> None:
    """Nothing has to be waited for before something is launched."""


async def until(met: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for a condition, and return what it came to."""
    async with limit(10):
        while not (found := await met()):  # noqa: ASYNC110 - it is true elsewhere
            await asyncio.sleep(0.02)
    return found


async def started(temporal: Client, operation: OperationId) -> WorkflowExecutionDescription | None:
    """The workflow behind an operation, if there is one."""
    try:
        return await temporal.get_workflow_handle(workflow_id(operation)).describe()
    except RPCError:
        return None


async def told_to_stop(temporal: Client, operation: OperationId) -> bool:
    history = await temporal.get_workflow_handle(workflow_id(operation)).fetch_history()
    asked = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
    return any(event.event_type == asked for event in history.events)


class TestThroughTheApi:
    @pytest.fixture
    def settings(self, settings: Settings, address: str, queues: str) -> Settings:
        temporal = Temporal(address=address, queue_prefix=queues)
        return settings.model_copy(update={"temporal": temporal})

    async def test_what_is_accepted_is_started(
        self, caller: Caller, temporal: WorkflowEnvironment, queues: str
    ) -> None:
        _, trailers = await answered(caller.cluster.CreateCluster(wanted(), timeout=20))
        operation = OperationId(trailers["windlass-operation"])
        found = await until(lambda: started(temporal.client, operation))
        assert found.workflow_type == "CreateCluster"
        assert found.task_queue == f"{queues}workflows"
        assert found.raw_description.workflow_execution_info.priority.priority_key == 3

    async def test_a_delete_goes_first_and_stops_what_it_pushes_aside(
        self, caller: Caller, hands: Hands, temporal: WorkflowEnvironment
    ) -> None:
        await caller.cluster.CreateCluster(wanted(), timeout=20)
        create = await hands.begun()
        await until(lambda: started(temporal.client, create.id))
        await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
        delete = await hands.newest()
        found = await until(lambda: started(temporal.client, delete.id))
        assert found.workflow_type == "DeleteCluster"
        assert found.raw_description.workflow_execution_info.priority.priority_key == 1
        await until(lambda: told_to_stop(temporal.client, create.id))

    async def test_a_repeat_starts_what_a_lost_launch_left_behind(
        self, caller: Caller, hands: Hands, settings: Settings, temporal: WorkflowEnvironment
    ) -> None:
        metadata = under()
        operation = await accepted(hands, settings, metadata)
        assert await started(temporal.client, operation.id) is None
        await caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20)
        await until(lambda: started(temporal.client, operation.id))


async def accepted(hands: Hands, settings: Settings, metadata: Any = None) -> Operation:
    """An operation whose launch was lost with the process that accepted it."""
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    address, _ = await api.start()
    caller = Caller(address)
    await caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20)
    await caller.close()
    await api.stop()
    return await hands.newest()


async def test_of_many_launches_one_gets_through(
    launch: Launch, hands: Hands, settings: Settings, temporal: WorkflowEnvironment
) -> None:
    operation = await accepted(hands, settings)
    await asyncio.gather(*(launch.launch(operation) for _ in range(5)))
    found = await started(temporal.client, operation.id)
    assert found is not None
    history = await temporal.client.get_workflow_handle(found.id).fetch_history()
    [payload] = history.events[0].workflow_execution_started_event_attributes.input.payloads
    assert payload.data.decode() == f'"{operation.id}"', "the id, and nothing of the plan"


async def test_the_sweep_starts_what_was_never_started(
    launch: Launch, hands: Hands, settings: Settings, temporal: WorkflowEnvironment
) -> None:
    operation = await accepted(hands, settings)
    sweep = Sweep(hands.operations, launch, Meters(), at_once, window=timedelta(hours=24))
    await sweep.launch_overdue(overdue_seconds=3600)
    assert await started(temporal.client, operation.id) is None, "it is not late yet"
    await sweep.launch_overdue(overdue_seconds=0)
    await until(lambda: started(temporal.client, operation.id))


async def test_what_has_been_taken_up_is_not_started(
    launch: Launch, hands: Hands, settings: Settings, temporal: WorkflowEnvironment
) -> None:
    await accepted(hands, settings)
    operation = await hands.ended(Phase.RUNNING)
    launch.soon(await hands.operations.get(operation.id))
    await launch.close()
    assert await started(temporal.client, operation.id) is None


async def test_temporal_may_be_away(away: Launch, hands: Hands, settings: Settings) -> None:
    operation = await accepted(hands, settings)
    begun = perf_counter()
    await away.launch(operation)
    await away.cancel(operation.id)
    assert await away.trouble() == "away"
    assert perf_counter() - begun < 5


async def test_temporal_may_be_silent(queues: str, hands: Hands, settings: Settings) -> None:
    operation = await accepted(hands, settings)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections, and that is all
        host, port = silent.getsockname()
        launch = Launch(await client(f"{host}:{port}", "default"), CATALOGUE, queues)
        begun = perf_counter()
        await launch.launch(operation)
        assert perf_counter() - begun < launching.LAUNCH_SECONDS + 1


async def test_temporal_that_is_there_is_no_trouble(launch: Launch) -> None:
    assert await launch.trouble() == ""


async def test_why_nothing_starts_is_logged_once_until_it_does(
    address: str, queues: str, hands: Hands, settings: Settings
) -> None:
    operation = await accepted(hands, settings)
    launch = Launch(await client(address, "nowhere"), CATALOGUE, queues)
    with capture_logs() as lines:
        await launch.launch(operation)
        await launch.launch(operation)
    [line] = lines
    assert line["log_level"] == "warning"
    assert line["subject"] == operation.id
    assert "Namespace nowhere is not found" in line["error"]
    assert await launch.trouble() == "there is no namespace nowhere"


async def test_a_rouse_may_take_longer_than_its_caller_would_wait(
    launch: Launch, temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits behind it, and the sweep would be seconds later."""
    monkeypatch.setattr(launching, "LAUNCH_SECONDS", 0)
    name = f"i-{uuid4()}"
    with capture_logs() as lines:
        await launch.rouse(RunInstance, name, name)
    assert not lines
    assert (
        await temporal.client.get_workflow_handle(name).describe()
    ).workflow_type == "RunInstance"


async def test_a_cancel_of_what_never_started_is_no_trouble(
    launch: Launch, hands: Hands, settings: Settings
) -> None:
    operation = await accepted(hands, settings)
    with capture_logs() as lines:
        await launch.cancel(operation.id)
    assert not lines


class SlowToAnswer(Interceptor, OutboundInterceptor):
    """A Temporal that does as it is told at once, and says so when the test lets it."""

    def __init__(self) -> None:
        self.told = 0
        self.answers = asyncio.Event()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        OutboundInterceptor.__init__(self, next)
        return self

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        await super().signal_workflow(input)
        self.told += 1
        await self.answers.wait()


async def test_a_nudge_while_another_is_in_flight_is_sent_after_it(
    address: str, queues: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first may have been heard before what the second tells of was written."""
    monkeypatch.setattr(launching, "LAUNCH_SECONDS", 60.0)
    slow = SlowToAnswer()
    slowly = await Client.connect(address, interceptors=[slow])
    launch = Launch(slowly, CATALOGUE, f"{queues}workflows")
    operation = OperationId(str(uuid4()))
    await launch.rouse(RunInstance, workflow_id(operation), "an instance")

    async def told() -> bool:
        return slow.told == 1

    launch.nudge_soon(operation)
    await until(told)
    for _ in range(3):
        launch.nudge_soon(operation)
    slow.answers.set()
    await launch.close()
    assert slow.told == 2, "once more, and not as often as it was asked for"
    launch.nudge_soon(operation)
    await launch.close()
    assert slow.told == 3, "and nothing is left over"


async def test_what_goes_wrong_is_logged_and_keeps_nothing_from_being_done_again(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def broken(self: Launch, operation: OperationId) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            launch.nudge_soon(operation)
            raise LookupError(operation)

    monkeypatch.setattr(Launch, "nudge", broken)
    with capture_logs() as lines:
        launch.nudge_soon(OperationId("7"))
        await launch.close()
    assert tries == 2
    assert [line["event"] for line in lines] == ["launch went wrong"]


async def test_a_greater_burst_than_can_wait_is_left_to_the_sweep(
    away: Launch, hands: Hands, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = await accepted(hands, settings)
    monkeypatch.setattr(launching, "WAITING", 3)
    for number in range(10):
        away.soon(operation.model_copy(update={"id": f"{operation.id}-{number}"}))
    tasks = {task for task in asyncio.all_tasks() if task.get_name().startswith("launch ")}
    assert len(tasks) == 3


async def test_the_sweep_outlives_a_database_that_is_away(
    away: Launch, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "PERIOD_SECONDS", 0.01)
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/not/there.db")
    sweep = Sweep(Operations(database), away, Meters(), at_once, window=timedelta(hours=24))
    task = asyncio.create_task(sweep.run())
    await asyncio.wait({task}, timeout=0.3)
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})
    await database.close()


async def test_the_sweep_forgets_request_ids_past_their_window(
    caller: Caller, away: Launch, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.cluster.CreateCluster(wanted(), metadata=under(), timeout=20)
    assert (await hands.counts())["idempotency"] == 1
    monkeypatch.setattr(sweeping, "PERIOD_SECONDS", 0.01)
    sweep = Sweep(hands.operations, away, Meters(), at_once, window=timedelta(0))
    task = asyncio.create_task(sweep.run())

    async def forgotten() -> bool:
        return (await hands.counts())["idempotency"] == 0

    await until(forgotten)
    task.cancel()
    await asyncio.wait({task})
