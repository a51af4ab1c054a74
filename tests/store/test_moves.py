"""The table of what may be done to instances, as it is obeyed: in every state each call is taken or
refused by it, leads where it says, and is called off to where it says."""

from collections.abc import Awaitable, Callable
from itertools import product

import pytest

from domain.errors import DomainError, Failed, Failure
from domain.operation import OperationId
from domain.record import Noun
from domain.tracking import Move, Phase, led
from store.settling import MOVES
from store.tracked import ROWS, Requested
from tests.store.desk import Desk
from tests.store.test_never_stuck import APP, CLUSTER, STATES, brought, stands
from tests.workflows.edge import Site, described

pytestmark = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)

CALLS: dict[tuple[Noun, Move], Callable[[Site], Awaitable[Requested]]] = {
    (CLUSTER, Move.CREATE): lambda site: site.create_cluster(),
    (CLUSTER, Move.UPDATE): lambda site: site.resize_cluster(),
    (CLUSTER, Move.PREPARE): lambda site: site.delete_cluster(),
    (APP, Move.CREATE): lambda site: site.create_app(),
    (APP, Move.DELETE): lambda site: site.delete_app(),
}
UNDOES = (Move.UNDO_CREATE, Move.UNDO_UPDATE, Move.UNDO_DELETE)


@pytest.mark.parametrize(
    ("noun", "phase", "move"),
    [(noun, phase, move) for (noun, phase), (of, move) in product(STATES, CALLS) if noun is of],
)
async def test_a_call_is_taken_where_the_table_says(
    desk: Desk, noun: Noun, phase: Phase, move: Move
) -> None:
    site = described(desk.database, desk.tail)
    await brought(site, desk, noun, phase, waits=False)
    if phase not in MOVES[noun][move]:
        with pytest.raises(DomainError):
            await CALLS[noun, move](site)
        assert await stands(site, noun) is phase
        return
    await CALLS[noun, move](site)
    empty = move is Move.PREPARE and phase is not Phase.DELETE_PREPARE
    way = (move, Move.DELETE) if empty else (move,)
    assert await stands(site, noun) is led(MOVES[noun], phase, *way)


@pytest.mark.parametrize(
    ("noun", "phase", "move"),
    [
        (noun, phase, move)
        for noun, move in product(MOVES, UNDOES)
        for phase in MOVES[noun].get(move, ())
    ],
)
async def test_what_is_called_off_goes_where_the_table_says(
    desk: Desk, noun: Noun, phase: Phase, move: Move
) -> None:
    site = described(desk.database, desk.tail)
    await brought(site, desk, noun, phase, waits=True)
    [row] = await desk.all(ROWS[noun])
    failure = Failure.of(Failed("called off"))
    await site.tracking.take_back(OperationId(row.operation), failure)
    left = MOVES[noun][move][phase]
    assert await stands(site, noun) is (None if left is Phase.NOT_PRESENT else left)
