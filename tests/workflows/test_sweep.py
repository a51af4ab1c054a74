"""The pawl: whatever was accepted is started, told and noticed, though nobody else does it."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionDescription, WorkflowFailureError
from temporalio.testing import ActivityEnvironment

from activities import sweeping
from activities.sweeping import (
    AFTER,
    LOST,
    SILENT_SECONDS,
    UNTAKEN_SECONDS,
    Due,
    Sweeping,
)
from domain.cluster import Phase
from domain.errors import Failed
from domain.operation import Kind, Operation, Stage
from store.stocks import Stocks
from store.tracked import Terms
from store.tracking import Tracking
from tests.store.desk import until
from tests.workflows.conftest import Opening
from tests.workflows.yard import Yard
from workflows.catalogue import CATALOGUE
from workflows.survey import Survey
from workflows.sweep import Sweep


async def sweep(place: Yard) -> None:
    await place.client.execute_workflow(
        Sweep.run, id=f"sweep-{uuid4()}", task_queue=f"{place.prefix}workflows"
    )


def sweeps(place: Yard) -> Sweeping:
    """The books of the sweep, to be asked at a moment of one's own."""
    tracks, stocks = Tracking(place.database, Terms()), Stocks(place.database)
    return Sweeping(place.operations, place.clusters, tracks, stocks, place.watches)


async def aged(place: Yard, operation: Operation, column: str, age: timedelta) -> None:
    """Make an operation look as if something had happened to it long ago."""
    moment = operation.created - age
    async with place.database.session(writes=True) as session:
        await session.execute(
            text(f"UPDATE operations SET {column} = :moment WHERE id = :id"),  # noqa: S608
            {"moment": _stored(place, moment.isoformat(sep=" "), moment), "id": operation.id},
        )


def _stored(place: Yard, words: str, moment: object) -> object:
    return words.removesuffix("+00:00") if place.database.is_sqlite else moment


async def test_what_was_accepted_and_never_launched_is_launched(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await aged(place, asked, "created", timedelta(minutes=1))
        await sweep(place)
        await place.finish(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


async def test_what_was_just_accepted_is_left_to_its_launch(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await sweep(place)
        assert (await place.operations.get(asked.id)).stage is Stage.REQUESTED


async def test_three_sweeps_at_once_start_it_once(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await aged(place, asked, "created", timedelta(minutes=1))
        await asyncio.gather(*(sweep(place) for _ in range(3)))
        await place.finish(asked.id)
        assert len(place.world.taken) == 2


async def test_a_cancel_that_temporal_never_heard_of_is_told_again(opened: Opening) -> None:
    async with opened() as place:
        for metal in place.world.machines:
            metal.owner = "somebody-else"  # so that the create waits
        asked = await place.ask()
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if "no machine is free" in event.note:
                break
        await place.steering.cancel(asked.id, "ann")
        await sweep(place)
        await place.finish(asked.id)
        assert (await place.operations.get(asked.id)).stage is Stage.CANCELLED


async def test_an_operation_whose_workflow_was_ended_by_hand_fails_and_says_so(
    opened: Opening,
) -> None:
    async with opened() as place:
        for metal in place.world.machines:
            metal.owner = "somebody-else"
        asked = await place.ask(workers=0)  # nobody else is heard of meanwhile
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if "no machine is free" in event.note:
                break
        await place.client.get_workflow_handle(f"op-{asked.id}").terminate()
        hands, sweeping = ActivityEnvironment(client=place.client), sweeps(place)
        await until(lambda: hands.run(sweeping.rests, asked.id))
        await aged(place, asked, "heard", timedelta(minutes=10))
        await sweep(place)
        operation = await place.operations.get(asked.id)
        assert operation.stage is Stage.FAILED
        assert operation.failure is not None
        assert "terminated" in operation.failure.message
        assert (await place.clusters.get("blue")).phase is Phase.ERROR


async def test_what_is_lost_is_judged_once_its_parts_have_undone_what_they_did(
    opened: Opening,
) -> None:
    async with opened() as place:
        await place.create()
        worker = (await place.clusters.nodes("blue")).slots[1]
        place.world.locked.add(worker.system_id)
        asked = await place.ask_scale("w", 0)
        assert asked is not None
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if "is locked" in event.note:
                break
        await place.client.get_workflow_handle(f"op-{asked.id}").terminate()
        hands, sweeping = ActivityEnvironment(client=place.client), sweeps(place)
        await hands.run(sweeping.verify, Due(id=asked.id, kind=asked.kind))
        assert (await place.operations.get(asked.id)).stage is Stage.RUNNING
        assert not await hands.run(sweeping.rests, asked.id)
        place.world.locked.clear()
        part = f"m-{worker.slot.cluster_uid[:8]}-{worker.slot.name}-retire-{asked.id}"
        with suppress(WorkflowFailureError):
            await place.client.get_workflow_handle(part).result()
        assert worker.slot.agent_name not in place.world.owners
        assert await hands.run(sweeping.rests, asked.id)
        await hands.run(sweeping.verify, Due(id=asked.id, kind=asked.kind))
        operation = await place.operations.get(asked.id)
        assert operation.failure is not None
        assert operation.failure.reason == "WORKFLOW_LOST"


async def test_a_lost_upgrade_says_how_it_is_gone_on_with(opened: Opening) -> None:
    async with opened() as place:
        await place.create(version="1.31.4")
        asked = await place.ask_upgrade("1.32.1")
        await place.operations.begin(asked.id)
        await _start_where_nobody_works(place, asked)
        await place.client.get_workflow_handle(f"op-{asked.id}").terminate()
        await aged(place, asked, "heard", timedelta(minutes=10))
        await sweep(place)
        operation = await place.operations.get(asked.id)
        assert operation.failure is not None
        assert operation.failure.reason == "WORKFLOW_LOST"
        assert "asking for the same version again" in operation.failure.message
        assert "given back" not in operation.failure.message


def test_what_is_lost_is_told_for_every_kind() -> None:
    assert AFTER.keys() == LOST.keys() == set(Kind)


async def test_a_silent_operation_that_still_works_is_left_alone(opened: Opening) -> None:
    async with opened() as place:
        for metal in place.world.machines[:-1]:
            metal.owner = "somebody-else"
        asked = await place.ask()
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if "no machine is free" in event.note:
                break
        await aged(place, asked, "heard", timedelta(minutes=10))
        await sweep(place)
        assert (await place.operations.get(asked.id)).stage is Stage.RUNNING
        assert not await place.operations.silent(SILENT_SECONDS, UNTAKEN_SECONDS)
        await place.cancel(asked.id)
        await place.finish(asked.id)


async def _start_where_nobody_works(place: Yard, operation: Operation) -> None:
    """Its workflow is there, and nobody takes the operation up."""
    await place.client.start_workflow(
        CATALOGUE[operation.kind].run,
        operation.id,
        id=f"op-{operation.id}",
        task_queue=f"{place.prefix}nobody",
    )


@pytest.mark.parametrize(
    ("wanted", "stage", "reason"),
    [(True, Stage.FAILED, "WORKFLOW_LOST"), (False, Stage.CANCELLED, "CANCELLED")],
)
async def test_what_was_never_taken_up_and_can_be_no_more_ends(
    opened: Opening, wanted: bool, stage: Stage, reason: str
) -> None:
    async with opened() as place:
        asked = await place.ask()
        if not wanted:
            await place.steering.cancel(asked.id, "ann")
        await _start_where_nobody_works(place, asked)
        await place.client.get_workflow_handle(f"op-{asked.id}").terminate()
        for column in ("created", "heard"):
            await aged(place, asked, column, timedelta(minutes=2))
        await sweep(place)
        operation = await place.operations.get(asked.id)
        assert operation.stage is stage
        assert operation.failure is not None
        assert operation.failure.reason == reason
        cluster = await place.clusters.get("blue")
        assert cluster.phase is Phase.ERROR
        assert operation.failure.message in cluster.message
        assert "what it held" not in cluster.message
        assert not await place.operations.unlaunched(0)


async def test_what_waits_for_a_worker_is_left_alone(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await _start_where_nobody_works(place, asked)
        await aged(place, asked, "heard", timedelta(minutes=2))
        await sweep(place)
        assert (await place.operations.get(asked.id)).stage is Stage.REQUESTED
        assert not await place.operations.silent(SILENT_SECONDS, UNTAKEN_SECONDS)
        await place.client.get_workflow_handle(f"op-{asked.id}").terminate()


async def test_what_temporal_has_not_heard_of_is_still_to_be_launched(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask()
        await aged(place, asked, "heard", timedelta(minutes=2))
        await sweep(place)
        assert (await place.operations.get(asked.id)).stage is Stage.REQUESTED
        await aged(place, asked, "created", timedelta(minutes=2))
        await sweep(place)
        await place.finish(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


async def test_the_survey_remembers_what_the_pool_holds(opened: Opening) -> None:
    async with opened() as place:
        await place.client.execute_workflow(
            Survey.run, id=f"survey-{uuid4()}", task_queue=f"{place.prefix}workflows"
        )
        async with place.database.session(writes=False) as session:
            row = (await session.execute(text("SELECT machines FROM stock"))).one()
        assert row.machines == 12


async def spoilt(place: Yard, operation: Operation, **columns: str) -> None:
    """As a restored disk or a newer version may leave it."""
    values = ", ".join(f"{name} = :{name}" for name in columns)
    async with place.database.session(writes=True) as session:
        await session.execute(
            text(f"UPDATE operations SET {values} WHERE id = :id"),  # noqa: S608
            {**columns, "id": operation.id},
        )


async def two(place: Yard) -> tuple[Operation, Operation]:
    """Two operations that nobody has launched, a minute ago."""
    await place.look()
    first, second = await place.ask(), await place.ask_pool()
    for operation in (first, second):
        await aged(place, operation, "created", timedelta(minutes=1))
    return first, second


@pytest.mark.parametrize(
    "columns", [{"kind": "fly-to-the-moon"}, {"left_behind": "{"}], ids=["kind", "left_behind"]
)
async def test_one_operation_that_cannot_be_read_stops_no_other(
    opened: Opening, columns: dict[str, str]
) -> None:
    async with opened() as place:
        first, second = await two(place)
        await spoilt(place, first, **columns)
        await sweep(place)
        await place.finish(second.id)
        [shown] = [it for it in await place.operations.page(size=9) if it.id == first.id]
        assert shown.unreadable
        assert shown.kind == columns.get("kind", Kind.CREATE_CLUSTER)
        assert shown.waiting_on.startswith("needs a person: it cannot be read")
        await place.operations.foreseen(first.id)
        backlog = await place.operations.backlog()
        assert backlog.need_a_person == ("kind" in columns)


async def test_what_the_sweep_can_do_nothing_about_keeps_nothing_else_waiting(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = sweeping._described

    async def broken(workflow: str) -> WorkflowExecutionDescription | None:
        asked.append(workflow)
        if workflow == f"op-{first.id}":
            raise ZeroDivisionError("by a bug")
        return await real(workflow)

    async with opened() as place:
        first, second = await two(place)
        for operation in (first, second):
            await aged(place, operation, "created", timedelta(0))
            await aged(place, operation, "heard", timedelta(seconds=UNTAKEN_SECONDS * 2))
        monkeypatch.setattr(sweeping, "_described", broken)
        await sweep(place)
        assert f"op-{second.id}" in asked
        shown = await place.operations.get(first.id)
        assert shown.waiting_on.startswith("needs a person: the sweep can do nothing about it")
        assert "by a bug" in shown.waiting_on
        assert (await place.operations.backlog()).need_a_person == 1
        await place.operations.found_alive(first.id)
        assert (await place.operations.backlog()).need_a_person == 0


async def test_an_operation_whose_plan_cannot_be_read_ends(opened: Opening) -> None:
    async with opened() as place:
        operation = await place.ask()
        await spoilt(place, operation, plan="{")
        with pytest.raises(Failed) as refused:
            await place.operations.begin(operation.id)
        assert refused.value.reason == "UNREADABLE"
        await place.start(operation)
        with pytest.raises(WorkflowFailureError):
            await place.client.get_workflow_handle(f"op-{operation.id}").result()
        await aged(place, operation, "heard", timedelta(seconds=UNTAKEN_SECONDS * 2))
        await sweep(place)
        assert (await place.operations.get(operation.id)).ended
