"""Whoever reaches Temporal and has no key commands nothing: not by words of their own, nor by ours
repeated elsewhere."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue, RetryPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import PayloadCodec
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.machines import Machines
from activities.progress import CARRIED_BY, Progress
from clients.maas import MaasMachines
from domain.errors import Failed
from domain.machine import Search
from domain.operation import Stage
from domain.payload_format import Migration
from domain.ports import ClusterMark
from store.engine import Database
from store.keys import KEY_BYTES
from store.sealing import Seal
from store.secrets import Secrets
from tests.clients.maas.pool import CLUSTER, client, slot, taken
from tests.sim.region import Region, some
from tests.store.desk import Desk
from workflows.catalogue import CATALOGUE
from workflows.sealed import ENCODING, converter
from workflows.serving import Serving, crew

MARK = ClusterMark(uid=CLUSTER, name="hello", endpoint="")
MANY = RetryPolicy(initial_interval=timedelta(milliseconds=10))
HOUR = timedelta(hours=1)


@workflow.defn
class Asks:
    """Has a step done with just these payloads, as often as it takes."""

    @workflow.run
    async def run(self, queue: str, step: str, said: Sequence[str]) -> str:
        answer = await workflow.execute_activity(
            step,
            args=[RawValue(Payload.FromString(bytes.fromhex(each))) for each in said],
            task_queue=queue,
            start_to_close_timeout=timedelta(minutes=5),
            schedule_to_close_timeout=HOUR,
            retry_policy=MANY,
            result_type=str,
        )
        return str(answer)


@workflow.defn
class Sweeps:
    """What one of ours may ask for."""

    @workflow.run
    async def run(self, mark: ClusterMark) -> None:
        queue = workflow.info().task_queue.removesuffix("ours") + "machines"
        await workflow.execute_activity(
            Machines.sweep,  # type: ignore[arg-type]
            mark,
            task_queue=queue,
            activity_id="a step of ours",
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=MANY,
        )


class Unread(PayloadCodec):
    """What a stranger makes of what they cannot read."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        nothing = Payload(metadata={"encoding": b"binary/null"})
        return [nothing if ENCODING in it.metadata.values() else it for it in payloads]


class Ground:
    """A region with a machine that a cluster holds, a worker of ours that could give it back, and a
    stranger with a worker of their own."""

    def __init__(self, address: str, seal: Seal, queues: str) -> None:
        self.address, self.seal, self.queues = address, seal, queues
        self.region = Region(some(2))
        self._stack = AsyncExitStack()

    async def open(self, migration: Migration = Migration.OFF) -> None:
        await self._stack.enter_async_context(self.region.serve())
        pool = await self._stack.enter_async_context(client(self.region))
        await self._holding(pool)
        self.ours = await self.sealing(migration)
        self.plain = await self.unread()
        serving = Serving(prefix=self.queues, migration=migration)
        [hands] = crew(self.ours, [Machines(pool)], [], [], serving).values()
        honest = self._worker(self.ours, "ours", Sweeps)
        stranger = self._worker(self.plain, "theirs", Asks)
        for worker in (hands, honest, stranger):
            await self._stack.enter_async_context(worker)

    async def _holding(self, pool: MaasMachines) -> None:
        await pool.allocate(Search(slot=slot()))
        assert self.held

    def _worker(self, client: Client, queue: str, flow: type[Any]) -> Worker:
        return Worker(
            client,
            task_queue=self.queues + queue,
            workflows=[flow],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def sealing(self, migration: Migration = Migration.OFF) -> Client:
        written = converter(self.seal, migration)
        return await Client.connect(self.address, data_converter=written)

    async def unread(self) -> Client:
        written = replace(pydantic_data_converter, payload_codec=Unread())
        return await Client.connect(self.address, data_converter=written)

    @property
    def held(self) -> list[str]:
        return taken(self.region)

    async def asked(self, step: str, *said: Payload, id: str = "") -> str:
        """What comes of a stranger's workflow."""
        payloads = [each.SerializeToString().hex() for each in said]
        words = [f"{self.queues}machines", step, payloads]
        answer: str = await self.plain.execute_workflow(
            Asks.run, args=words, id=id or f"{self.queues}asks", task_queue=f"{self.queues}theirs"
        )
        return answer

    async def refused(self, step: str, *said: Payload, id: str = "") -> str:
        """The reason for which a stranger's step is refused, which the stranger cannot read."""
        with capture_logs() as lines, pytest.raises(WorkflowFailureError):
            await self.asked(step, *said, id=id)
        return str(next(line for line in lines if line["event"] == "step refused")["reason"])

    async def swept(self, id: str) -> Payload:
        """What a workflow of ours gave to the step that sweeps."""
        queue = f"{self.queues}ours"
        handle = await self.ours.start_workflow(Sweeps.run, MARK, id=id, task_queue=queue)
        await handle.result()
        history = await self.plain.get_workflow_handle(id).fetch_history()
        asked = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        [event] = [event for event in history.events if event.event_type == asked]
        [payload] = event.activity_task_scheduled_event_attributes.input.payloads
        return payload


@pytest.fixture
async def ground(temporal: WorkflowEnvironment, seal: Seal, queues: str) -> AsyncIterator[Ground]:
    address = temporal.client.service_client.config.target_host
    ground = Ground(address, seal, queues)
    yield ground
    await ground.close()


def plain(said: str) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=said.encode())


async def test_a_strangers_unsealed_words_command_nothing(ground: Ground) -> None:
    await ground.open()
    mark = plain(MARK.model_dump_json())
    assert await ground.refused("machines.sweep", mark) == "PAYLOAD_NOT_SEALED"
    assert ground.held


async def test_nor_does_what_a_stranger_sealed(ground: Ground) -> None:
    await ground.open()
    other = converter(Seal(secrets.token_bytes(KEY_BYTES))).payload_codec
    assert other is not None
    [sealed] = await other.encode([plain(MARK.model_dump_json())])
    assert await ground.refused("machines.sweep", sealed) == "WRONG_KEY"
    assert ground.held


async def test_a_step_without_any_words_is_refused_too(ground: Ground) -> None:
    await ground.open()
    assert await ground.refused("machines.stock") == "PAYLOAD_NOT_SEALED"


async def test_an_unknown_key_ends_the_step_and_is_named(ground: Ground) -> None:
    await ground.open()
    other = converter(Seal(secrets.token_bytes(KEY_BYTES), "another")).payload_codec
    assert other is not None
    [sealed] = await other.encode([plain(MARK.model_dump_json())])
    assert await ground.refused("machines.sweep", sealed) == "SEAL_KEY_UNKNOWN"


async def test_what_was_sealed_for_one_workflow_is_refused_in_another(ground: Ground) -> None:
    await ground.open()
    ours = f"{ground.queues}op-1"
    sealed = await ground.swept(ours)
    assert not ground.held, "our own sweep did as it was told"
    assert await ground.refused("machines.sweep", sealed) == "PAYLOAD_ELSEWHERE"
    assert await ground.refused("machines.sweep", sealed, id=ours) == "PAYLOAD_ELSEWHERE", (
        "the same id, and another name of the workflow"
    )
    assert await ground.refused("machines.release", sealed, id=ours) == "PAYLOAD_ELSEWHERE"


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload.metadata.__setitem__("windlass-bound", b"{}"),
        lambda payload: payload.metadata.pop("windlass-format"),
        lambda payload: payload.metadata.__setitem__("encoding", b"windlass/refused"),
        lambda payload: payload.metadata.__setitem__(
            "windlass-bound", payload.metadata["windlass-bound"].replace(b"op-1", b"op-2")
        ),
    ],
)
async def test_what_it_is_bound_to_cannot_be_rewritten(
    ground: Ground, change: Callable[[Payload], object]
) -> None:
    await ground.open()
    sealed = await ground.swept(f"{ground.queues}op-1")
    change(sealed)
    await ground.refused("machines.sweep", sealed, id=f"{ground.queues}op-2")


async def test_a_workflow_begun_with_anothers_words_fails_and_is_not_tried_for_ever(
    ground: Ground,
) -> None:
    await ground.open()
    await ground.swept(f"{ground.queues}op-1")
    history = await ground.plain.get_workflow_handle(f"{ground.queues}op-1").fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    for payload, reason in (
        (started.input.payloads[0], "PAYLOAD_ELSEWHERE"),
        (plain(MARK.model_dump_json()), "PAYLOAD_NOT_SEALED"),
    ):
        id = f"{ground.queues}{reason}"
        with pytest.raises(WorkflowFailureError):
            await ground.plain.execute_workflow(
                "Sweeps", RawValue(payload), id=id, task_queue=f"{ground.queues}ours"
            )
        with pytest.raises(WorkflowFailureError) as failed:
            await ground.ours.get_workflow_handle(id).result()
        cause = failed.value.cause
        assert isinstance(cause, ApplicationError)
        assert cause.details[0]["reason"] == reason


async def test_a_strangers_answer_to_a_step_of_ours_is_not_believed(
    ground: Ground, queues: str
) -> None:
    """Whoever serves our queues takes steps from us, and cannot say what came of them."""
    ground.ours, ground.plain = await ground.sealing(), await ground.unread()

    async def forged(_: Any) -> str:
        return "all is given back"

    lies = activity.defn(name="machines.sweep")(forged)
    worker = Worker(ground.plain, task_queue=f"{queues}machines", activities=[lies])
    honest = ground._worker(ground.ours, "ours", Sweeps)
    async with worker, honest:
        with pytest.raises(WorkflowFailureError) as failed:
            await ground.ours.execute_workflow(
                Sweeps.run, MARK, id=f"{queues}op-3", task_queue=f"{queues}ours"
            )
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.details[0]["reason"] == "PAYLOAD_NOT_SEALED"


@pytest.mark.parametrize("migration", [Migration.READ_OLD, Migration.WRITE_OLD])
async def test_during_a_migration_what_is_old_is_taken(
    ground: Ground, migration: Migration
) -> None:
    await ground.open(migration)
    before = converter(ground.seal, Migration.WRITE_OLD).payload_codec
    assert before is not None
    [sealed] = await before.encode([plain(MARK.model_dump_json())])
    assert "windlass-bound" not in sealed.metadata
    await ground.asked("machines.sweep", sealed)
    assert not ground.held
    await ground.asked("machines.sweep", plain(MARK.model_dump_json()), id=f"{ground.queues}2")
    kept = await ground.swept(f"{ground.queues}op-1")
    assert ("windlass-bound" in kept.metadata) is not migration.writes_old


async def test_after_a_migration_what_is_old_is_refused(ground: Ground) -> None:
    await ground.open()
    before = converter(ground.seal, Migration.WRITE_OLD).payload_codec
    assert before is not None
    [sealed] = await before.encode([plain(MARK.model_dump_json())])
    assert await ground.refused("machines.sweep", sealed) == "PAYLOAD_NOT_BOUND"
    assert ground.held


def test_every_kind_of_operation_has_the_workflow_that_the_catalogue_names() -> None:
    carried = {kind: name for name, kinds in CARRIED_BY.items() for kind in kinds}
    assert carried == {kind: flow.__name__ for kind, flow in CATALOGUE.items()}


async def test_a_creation_is_not_carried_out_by_a_delete(
    database: Database, vault: Secrets
) -> None:
    """A stranger who ends a workflow by force may start one of another name under its id."""
    desk = Desk(database, vault)
    operation = await desk.create()
    progress = Progress(desk.operations, desk.clusters, desk.journal)
    with pytest.raises(Failed) as refused:
        await within("DeleteCluster").run(progress.begin, operation.id)
    assert refused.value.reason == "FOREIGN_WORKFLOW"
    assert (await desk.operations.get(operation.id)).stage is Stage.REQUESTED
    assert not (await within("CreateCluster").run(progress.begin, operation.id)).over


def within(flow: str) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_type=flow)
    return environment
