"""Tracking: where an instance stands between what is wanted of it and what its cloudlet has done.

Every state has one writer. Callers ask (`Move`), and what they ask is refused from the state that
is stored; the resource manager of its cloudlet tells (`hear`), and what it says out of turn changes
nothing."""

from enum import StrEnum
from typing import TypeAlias

from domain.override import Override


class Phase(StrEnum):
    """The states, by the names that the contract gives them.

    NOT_PRESENT        there is no such instance
    CREATE_REQUESTED   accepted; its resource manager has not taken it up
    CREATING           being made
    CREATE_ERROR       could not be made; deleting it is the way out
    READY              it is there
    UPDATE_REQUESTED   a change is accepted
    UPDATING           being changed
    UPDATE_ERROR       could not be changed; it goes back to what it was
    DELETE_PREPARE     what runs in a cluster goes first
    DELETE_REQUESTED   a delete is accepted
    DELETING           being deleted
    DELETE_ERROR       could not be deleted; creating it again is the way out
    """

    NOT_PRESENT = "NOT_PRESENT"
    CREATE_REQUESTED = "CREATE_REQUESTED"
    CREATING = "CREATING"
    CREATE_ERROR = "CREATE_ERROR"
    READY = "READY"
    UPDATE_REQUESTED = "UPDATE_REQUESTED"
    UPDATING = "UPDATING"
    UPDATE_ERROR = "UPDATE_ERROR"
    DELETE_PREPARE = "DELETE_PREPARE"
    DELETE_REQUESTED = "DELETE_REQUESTED"
    DELETING = "DELETING"
    DELETE_ERROR = "DELETE_ERROR"


class Move(StrEnum):
    """What we do to an instance ourselves."""

    CREATE = "create"
    UPDATE = "update"
    PREPARE = "prepare"
    """The first half of deleting a cluster: nothing new may come into it."""
    DELETE = "delete"
    UNDO_CREATE = "undo create"
    UNDO_UPDATE = "undo update"
    UNDO_DELETE = "undo delete"


ERRORS = frozenset({Phase.CREATE_ERROR, Phase.UPDATE_ERROR, Phase.DELETE_ERROR})

TRANSIENT = frozenset(
    {
        *(Phase.CREATE_REQUESTED, Phase.CREATING),
        *(Phase.UPDATE_REQUESTED, Phase.UPDATING, Phase.UPDATE_ERROR),
        *(Phase.DELETE_PREPARE, Phase.DELETE_REQUESTED, Phase.DELETING),
    }
)
"""In these an instance is busy, unless the caller says that this does not matter."""

Moves: TypeAlias = dict[Move, dict[Phase, Phase]]
"""From where each move may be made, and where it leads, which is the same place for all."""

_BOTH: Moves = {
    Move.CREATE: {
        Phase.NOT_PRESENT: Phase.CREATE_REQUESTED,
        Phase.DELETE_ERROR: Phase.CREATE_REQUESTED,
    },
    Move.UNDO_CREATE: dict.fromkeys(
        (Phase.CREATE_REQUESTED, Phase.CREATING, Phase.CREATE_ERROR), Phase.NOT_PRESENT
    ),
    Move.UNDO_DELETE: dict.fromkeys(
        (Phase.DELETE_REQUESTED, Phase.DELETING, Phase.DELETE_ERROR), Phase.READY
    ),
}
"""What is under way is undone, too, when it is called off: it is let go of, whatever its resource
manager makes of it."""

CLUSTER_MOVES: Moves = {
    **_BOTH,
    Move.UPDATE: {Phase.READY: Phase.UPDATE_REQUESTED},
    Move.PREPARE: dict.fromkeys(
        (Phase.READY, Phase.CREATE_ERROR, Phase.UPDATE_ERROR, Phase.DELETE_PREPARE),
        Phase.DELETE_PREPARE,
    ),
    Move.DELETE: {Phase.DELETE_PREPARE: Phase.DELETE_REQUESTED},
    Move.UNDO_UPDATE: dict.fromkeys(
        (Phase.UPDATE_REQUESTED, Phase.UPDATING, Phase.UPDATE_ERROR), Phase.READY
    ),
}
"""What may be done to a cluster, and what it is then. A delete that fails in its first half goes
back to where it came from, which the row remembers."""

APP_MOVES: Moves = {
    **_BOTH,
    Move.DELETE: dict.fromkeys(
        (Phase.READY, Phase.CREATE_ERROR, Phase.DELETE_ERROR), Phase.DELETE_REQUESTED
    ),
}
"""What may be done to an app's instance. It is never changed, and nothing is in it."""

HEARD: dict[Phase, frozenset[Phase]] = {
    Phase.CREATE_REQUESTED: frozenset({Phase.CREATING, Phase.READY, Phase.CREATE_ERROR}),
    Phase.CREATING: frozenset({Phase.READY, Phase.CREATE_ERROR}),
    Phase.UPDATE_REQUESTED: frozenset({Phase.UPDATING, Phase.READY, Phase.UPDATE_ERROR}),
    Phase.UPDATING: frozenset({Phase.READY, Phase.UPDATE_ERROR}),
    Phase.DELETE_REQUESTED: frozenset({Phase.DELETING, Phase.DELETE_ERROR}),
    Phase.DELETING: frozenset({Phase.DELETE_ERROR}),
}
"""What a resource manager may say, and when. All else is late or lost."""

FORGETTING = frozenset({Phase.DELETE_REQUESTED, Phase.DELETING})
"""When it may say that an instance is gone, for which it has no word but a notice of its own."""

_CHANGING = frozenset({Phase.UPDATE_REQUESTED, Phase.UPDATING})


def hear(now: Phase, said: Phase) -> Phase:
    """Where an instance stands once its resource manager has said so. While it is being changed
    every error is that of the change: resource managers have called it by other names."""
    if now in _CHANGING and said in ERRORS:
        return Phase.UPDATE_ERROR
    return said if said in HEARD.get(now, frozenset()) else now


def hear_gone(now: Phase) -> Phase:
    """Where it stands once its resource manager has forgotten it."""
    return Phase.NOT_PRESENT if now in FORGETTING else now


def may(moves: Moves, move: Move, now: Phase, override: Override = Override.NONE) -> bool:
    """Whether a move may be made: from where it begins, and, by whoever minds no work that is under
    way, from there too."""
    return now in moves[move] or (override.displaces and now in TRANSIENT)


def led(moves: Moves, now: Phase, *way: Move, override: Override = Override.NONE) -> Phase:
    """Where moves that may be made take an instance, one after the other."""
    for move in way:
        leads = moves[move]
        displaced = now not in leads and may(moves, move, now, override)
        now = next(iter(leads.values())) if displaced else leads[now]
    return now


def is_free_to_create(now: Phase, override: Override) -> bool:
    """Whether a create finds the key free. What is there then, is rebuilt as it is stored."""
    return may(_BOTH, Move.CREATE, now, override)


def is_free_to_delete(now: Phase, moves: Moves, override: Override) -> bool:
    """Whether a delete finds an instance at rest, by the moves of its kind."""
    return may(moves, Move.PREPARE if Move.PREPARE in moves else Move.DELETE, now, override)
