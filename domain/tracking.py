"""Tracking: where an instance stands between what is wanted of it and what its cloudlet has done.

Every state has one writer. Callers ask (`Move`), and what they ask is refused from the state that
is stored; the resource manager of its cloudlet tells (`hear`), and what it says out of turn changes
nothing."""

from enum import StrEnum

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

_BOTH: dict[Move, dict[Phase, Phase]] = {
    Move.CREATE: {
        Phase.NOT_PRESENT: Phase.CREATE_REQUESTED,
        Phase.DELETE_ERROR: Phase.CREATE_REQUESTED,
    },
    Move.UNDO_CREATE: {
        Phase.CREATE_REQUESTED: Phase.NOT_PRESENT,
        Phase.CREATE_ERROR: Phase.NOT_PRESENT,
    },
    Move.UNDO_DELETE: {
        Phase.DELETE_REQUESTED: Phase.READY,
        Phase.DELETE_ERROR: Phase.READY,
    },
}

CLUSTER_MOVES: dict[Move, dict[Phase, Phase]] = {
    **_BOTH,
    Move.UPDATE: {Phase.READY: Phase.UPDATE_REQUESTED},
    Move.PREPARE: dict.fromkeys(
        (Phase.READY, Phase.CREATE_ERROR, Phase.UPDATE_ERROR, Phase.DELETE_PREPARE),
        Phase.DELETE_PREPARE,
    ),
    Move.DELETE: {Phase.DELETE_PREPARE: Phase.DELETE_REQUESTED},
    Move.UNDO_UPDATE: {
        Phase.UPDATE_REQUESTED: Phase.READY,
        Phase.UPDATE_ERROR: Phase.READY,
    },
}
"""What may be done to a cluster, and what it is then. A delete that fails in its first half goes
back to where it came from, which the row remembers."""

APP_MOVES: dict[Move, dict[Phase, Phase]] = {
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


def is_free_to_create(now: Phase, override: Override) -> bool:
    """Whether a create finds the key free. What is there then, is rebuilt as it is stored."""
    return now in _BOTH[Move.CREATE] or (override.displaces and now in TRANSIENT)


def is_free_to_delete(
    now: Phase, moves: dict[Move, dict[Phase, Phase]], override: Override
) -> bool:
    """Whether a delete finds an instance at rest, by the moves of its kind."""
    first = Move.PREPARE if Move.PREPARE in moves else Move.DELETE
    return now in moves[first] or (override.displaces and now in TRANSIENT)
