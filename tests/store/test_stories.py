"""Whatever is asked for, in whatever order and at the same time, the laws of the rows hold."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.cluster import Phase
from domain.errors import DomainError, Failure
from domain.frozen import Frozen
from domain.machine import Sighting
from domain.operation import Operation, Reached
from store.access_rows import AuditRow
from store.rows import Row
from tests.store.desk import Desk, ask
from tests.store.invariants import broken

NAMES = ("apple", "banana")
VERBS = ("machines.allocate", "machines.wait_deployed", "machines.release")
PHASES = (Phase.RUNNING, Phase.DEGRADED, Phase.ERROR, Phase.GONE, None)


class Move(Frozen):
    """Something somebody asks for. What it does not need it ignores."""

    what: str
    name: str
    key: str
    nth: int
    """Of the operations there are, the newest first."""
    verb: str
    attempt: int
    sighting: Sighting
    undo: bool
    phase: Phase | None


moves = st.builds(
    Move,
    what=st.sampled_from(
        ("create", "delete", "begin", "mark", "mark", "well", "badly", "cancel", "fence", "forget")
    ),
    name=st.sampled_from(NAMES),
    key=st.sampled_from(("", "", "key-1", "key-2")),
    nth=st.integers(0, 3),
    verb=st.sampled_from(VERBS),
    attempt=st.integers(1, 3),
    sighting=st.sampled_from(Sighting),
    undo=st.booleans(),
    phase=st.sampled_from(PHASES),
)
rounds = st.lists(st.lists(moves, min_size=1, max_size=6), min_size=4, max_size=12)
"""The moves of a round are made at the same time."""


async def _make(desk: Desk, move: Move) -> None:
    if move.what == "create":
        await desk.create(move.name, asked=ask(move.key))
    elif move.what == "delete":
        await desk.delete(move.name, asked=ask(move.key, method="Delete"))
    elif there := await desk.operations.page(size=4):
        await _change(desk, move, there[move.nth % len(there)])


async def _change(desk: Desk, move: Move, operation: Operation) -> None:
    match move.what:
        case "begin":
            await desk.operations.begin(operation.id)
        case "mark":
            plan = await desk.operations.plan(operation.id)
            await desk.mark(
                operation.id,
                move.verb,
                plan.slots[0].name,
                move.sighting,
                attempt=move.attempt,
                undo=move.undo,
            )
        case "well":
            await desk.clusters.reach(Reached.well(operation.id, move.phase or Phase.GONE, "well"))
        case "badly":
            failure = Failure(kind="Failed", message="badly")
            await desk.clusters.reach(Reached.badly(operation.id, move.phase, failure))
        case "cancel":
            await desk.steering.cancel(operation.id, "ann")
        case "fence":
            await desk.operations.fence(operation.id)
        case "forget":
            await desk.operations.forget(operation.id)


async def _dare(desk: Desk, move: Move) -> None:
    with suppress(DomainError):
        await _make(desk, move)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rounds)
async def test_the_laws_hold_at_the_end_of_every_story(
    desk: Desk, other_desk: Desk, rounds: Sequence[Sequence[Move]]
) -> None:
    await _clear(desk)
    for together in rounds:
        desks = (desk, other_desk)
        await asyncio.gather(*(_dare(desks[n % 2], move) for n, move in enumerate(together)))
        assert await broken(desk.database) == []


async def _clear(desk: Desk) -> None:
    async with desk.database.session(writes=True) as session:
        for table in Row.metadata.sorted_tables:
            if table.name != AuditRow.__tablename__:  # it only grows
                await session.execute(table.delete())
