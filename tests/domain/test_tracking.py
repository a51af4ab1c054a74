from itertools import product

import pytest

from domain.override import Override
from domain.tracking import (
    APP_MOVES,
    CLUSTER_MOVES,
    ERRORS,
    FORGETTING,
    HEARD,
    TRANSIENT,
    Move,
    Moves,
    Phase,
    hear,
    hear_gone,
    led,
    may,
)

UPDATES = (Phase.UPDATE_REQUESTED, Phase.UPDATING)
SAID = [(now, said) for now in HEARD for said in sorted(HEARD[now])]
UNHEARD = [
    (now, said)
    for now, said in product(Phase, Phase)
    if said not in HEARD.get(now, ()) and not (now in UPDATES and said in ERRORS)
]


@pytest.mark.parametrize(("now", "said"), SAID)
def test_a_word_in_turn_is_taken(now: Phase, said: Phase) -> None:
    assert hear(now, said) is said


@pytest.mark.parametrize(("now", "said"), UNHEARD)
def test_a_word_out_of_turn_changes_nothing(now: Phase, said: Phase) -> None:
    assert hear(now, said) is now


@pytest.mark.parametrize(("now", "said"), list(product(sorted(UPDATES), sorted(ERRORS))))
def test_every_error_of_a_change_is_the_changes(now: Phase, said: Phase) -> None:
    assert hear(now, said) is Phase.UPDATE_ERROR


@pytest.mark.parametrize("now", Phase)
def test_only_what_is_being_deleted_may_be_forgotten(now: Phase) -> None:
    assert hear_gone(now) is (Phase.NOT_PRESENT if now in FORGETTING else now)


def test_nobody_says_that_something_is_not_there() -> None:
    assert all(Phase.NOT_PRESENT not in words for words in HEARD.values())


@pytest.mark.parametrize("moves", [CLUSTER_MOVES, APP_MOVES], ids=["cluster", "app"])
def test_there_is_a_way_out_of_every_state(moves: dict[Move, dict[Phase, Phase]]) -> None:
    """Through what callers and we may do, what may be heard, and a caller who minds no work under
    way: nothing that can be reached keeps anybody from being rid of it."""
    reached = {Phase.NOT_PRESENT}
    while True:
        more = {moves[move].get(now, now) for move in moves for now in reached}
        more |= {hear(now, said) for now in reached for said in Phase}
        if more <= reached:
            break
        reached |= more
    for now in reached - {Phase.NOT_PRESENT}:
        asked = {
            move for move in (Move.CREATE, Move.PREPARE, Move.DELETE) if now in moves.get(move, {})
        }
        assert asked or now in TRANSIENT


BEGUN = {
    Move.CREATE: Move.UNDO_CREATE,
    Move.UPDATE: Move.UNDO_UPDATE,
    Move.DELETE: Move.UNDO_DELETE,
}
DONE = {Phase.READY, Phase.NOT_PRESENT}


@pytest.mark.parametrize("moves", [CLUSTER_MOVES, APP_MOVES], ids=["cluster", "app"])
def test_whatever_comes_of_a_request_can_be_called_off(moves: Moves) -> None:
    for move in BEGUN.keys() & moves.keys():
        stands = set(moves[move].values())
        stands |= {hear(now, said) for now in stands for said in Phase}
        stands |= {hear(now, said) for now in stands for said in Phase}
        assert stands - DONE == moves[BEGUN[move]].keys()


@pytest.mark.parametrize("moves", [CLUSTER_MOVES, APP_MOVES], ids=["cluster", "app"])
def test_a_move_leads_to_one_place_and_only_from_where_it_may_be_made(moves: Moves) -> None:
    for move, now in product(moves, Phase):
        [place] = set(moves[move].values())
        for override in Override:
            if may(moves, move, now, override):
                assert led(moves, now, move, override=override) is place
            else:
                with pytest.raises(KeyError):
                    led(moves, now, move, override=override)
        assert may(moves, move, now) is (now in moves[move])
        assert may(moves, move, now, Override.TRANSIENT_STATE) is (
            now in moves[move] or now in TRANSIENT
        )


def test_states_of_changes_are_of_clusters_alone() -> None:
    of_apps = {phase for move in APP_MOVES.values() for both in move.items() for phase in both}
    assert not {
        phase for phase in of_apps if phase.startswith("UPDAT") or phase.endswith("PREPARE")
    }


def test_every_move_is_a_clusters() -> None:
    assert CLUSTER_MOVES.keys() == set(Move)
