"""What is due for an instance, by its row."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.errand import Errand, Leftover, Standing, What, due
from domain.instance import InstanceUid, Phase, Wish

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON, BEFORE = NOW + timedelta(seconds=5), NOW - timedelta(seconds=5)


def errand(leftover: Leftover | None = None, **more: Any) -> Errand:
    said = {"uid": InstanceUid("u"), "phase": Phase.RUNNING, "wish": Wish.RUN, "turn": 7, **more}
    return due(Standing(**said, leftovers=(leftover,) if leftover else ()), NOW)


def left(waits_until: datetime | None, *, within_reach: bool = True) -> Leftover:
    return Leftover(node="b", incarnation=1, within_reach=within_reach, waits_until=waits_until)


HAS_ONE: dict[str, Any] = {"node": "a", "taken_up": True}
"""It is on a node, which has taken it up."""


def test_a_copy_that_was_left_goes_before_the_next_one_is_made() -> None:
    assert errand(left(None)).what is What.CLEAN
    assert errand(left(None), **HAS_ONE).what is What.CLEAN
    assert errand(left(None, within_reach=False)).what is What.PLACE


@pytest.mark.parametrize(
    ("standing", "what"),
    [
        ({}, What.PLACE),
        (HAS_ONE, What.ATTEND),
        ({**HAS_ONE, "wish": Wish.STOP}, What.STOP),
        ({**HAS_ONE, "wish": Wish.DESTROY}, What.DESTROY),
    ],
)
def test_one_that_could_not_be_removed_keeps_nothing_waiting(
    standing: dict[str, Any], what: What
) -> None:
    waits = errand(left(SOON), **standing)
    assert (waits.what, waits.beside) == (what, None)
    again = errand(left(BEFORE), **standing)
    assert (again.what, again.turn) == (what, 7)
    assert again.beside is not None
    assert (again.beside.what, again.beside.node) == (What.CLEAN, "b")
    assert again.is_same(waits), "what is under way goes on meanwhile"


def test_where_there_is_nothing_else_to_do_it_is_done_by_itself() -> None:
    assert errand(left(BEFORE), phase=Phase.TERMINATED).what is What.CLEAN
    assert errand(left(BEFORE), phase=Phase.STOPPED, wish=Wish.STOP).what is What.CLEAN
    waits = errand(left(SOON), phase=Phase.TERMINATED)
    assert (waits.what, waits.until) == (What.WAIT, SOON)
    assert errand(left(SOON), **HAS_ONE).until == SOON


def test_what_its_node_stopped_is_started_unless_the_node_goes_away() -> None:
    parked = {**HAS_ONE, "phase": Phase.STOPPING, "parked": True}
    assert errand(**parked).what is What.START
    assert errand(**parked, node_goes=True).what is What.WAIT
    assert errand(**parked, node_away=True).what is What.LEAVE
