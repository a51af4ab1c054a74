"""Errands: what is to be done next for an instance, read from its row alone.

Its workflow knows nothing but the row's key: it asks what is due, does it, and asks again. So it
may end at any point and another go on, and what callers, nodes and time do to the row meanwhile
it finds there."""

from datetime import datetime
from enum import StrEnum

from domain.errors import Failure
from domain.frozen import Frozen
from domain.instance import OVER, InstanceUid, Phase, Wish


class What(StrEnum):
    """What may be due."""

    PLACE = "place"
    """Find it a node and reserve what it needs there."""
    LEAVE = "leave"
    """Give its node up, which is gone or takes nothing new: there is nobody to ask."""
    ATTEND = "attend"
    """Have its node run it, and listen to what the node says of it."""
    START = "start"
    """Have its node start what it kept."""
    STOP = "stop"
    """Have its node stop it, and keep it."""
    DESTROY = "destroy"
    """Have its node end it and keep nothing."""
    MOVE = "move"
    """Have its node end it and keep nothing, so that another may run it."""
    CLEAN = "clean"
    """Have a node remove a copy that is not its own any more."""
    END = "end"
    """Do as was wished where no node has to be asked."""
    WAIT = "wait"
    """Until there is news, or it is time."""
    OVER = "over"
    """Nothing, ever. A copy that a lost node may have brings it back once the node is."""


BOOKED = frozenset({What.PLACE, What.LEAVE, What.END})
"""What only touches our own rows."""


PASSING = ("until", "in_seconds", "beside")
"""What may differ between two that ask for the same."""


class Errand(Frozen):
    """What is due, on which turn: one that is done too late changes nothing."""

    uid: InstanceUid
    what: What
    turn: int = 0
    node: str = ""
    incarnation: int = 0
    until: datetime | None = None
    """When there is something to be done next, unless there is news."""
    in_seconds: float | None = None
    """How long that was off when it was said: whoever waits need not have the same clock."""
    beside: "Errand | None" = None
    """What is due as well, and does not keep this waiting: a copy that could not be removed."""

    def is_same(self, other: "Errand") -> bool:
        """Whether both ask for the same, whenever and whatever else is to be done."""
        return self == other.model_copy(update={name: getattr(self, name) for name in PASSING})


class Leftover(Frozen):
    """A copy on a node that is not the instance's own any more."""

    node: str
    incarnation: int
    within_reach: bool
    waits_until: datetime | None = None
    """Set once it could not be removed: when that is tried again."""


class Standing(Frozen):
    """An instance as far as it decides what is due."""

    uid: InstanceUid
    phase: Phase
    wish: Wish
    turn: int
    node: str = ""
    incarnation: int = 0
    node_away: bool = False
    node_goes: bool = False
    """Whether its node says that it is going away, and has what runs there end."""
    node_shut: bool = False
    """Whether nothing new may be placed on its node."""
    taken_up: bool = False
    parked: bool = False
    evicted: bool = False
    waits_until: datetime | None = None
    leftovers: tuple[Leftover, ...] = ()


class Stumble(Frozen):
    """An errand that came to nothing."""

    errand: Errand
    failure: Failure


class Outcome(Frozen):
    """An errand that a node has done."""

    errand: Errand
    kept: bool = False
    """Whether the node keeps what it stopped."""


class Emptying(Frozen):
    """How far a node has been emptied."""

    over: bool = False
    left: int = 0
    told: tuple[InstanceUid, ...] = ()
    """Those that were told to leave just now."""
    until: datetime | None = None
    """By when all of them have to have left."""
    in_seconds: float | None = None
    """How long that was off when it was said."""


def due(of: Standing, now: datetime) -> Errand:
    """What is to be done next. Copies that were left somewhere go first, lest two of them run; one
    that could not be removed when that was tried keeps nothing waiting from then on."""
    within_reach = [each for each in of.leftovers if each.within_reach]
    for leftover in within_reach:
        if leftover.waits_until is None:
            return _clean(of, leftover)
    what, again = _own(of, now), None
    for leftover in within_reach:
        if not _later(leftover.waits_until, now):
            again = _clean(of, leftover)
            break
    if what in (What.WAIT, What.OVER) and again is not None:
        return again
    if what is What.OVER and within_reach:
        what = What.WAIT  # a copy could not be removed, and is tried again
    until = _next(of, now) if what in (What.WAIT, What.ATTEND) else None
    return Errand(
        uid=of.uid,
        what=what,
        turn=of.turn,
        node=of.node,
        incarnation=of.incarnation,
        until=until,
        in_seconds=(until - now).total_seconds() if until is not None else None,
        beside=again,
    )


def _clean(of: Standing, leftover: Leftover) -> Errand:
    return Errand(
        uid=of.uid,
        what=What.CLEAN,
        turn=of.turn,
        node=leftover.node,
        incarnation=leftover.incarnation,
    )


def _own(of: Standing, now: datetime) -> What:
    if of.phase in OVER:
        return What.OVER
    if of.node and of.node_away:
        return What.LEAVE
    if of.wish is not Wish.RUN:
        return _wished(of, now)
    if of.evicted and of.node:
        return What.WAIT if _later(of.waits_until, now) else What.MOVE
    if _later(of.waits_until, now):
        return What.WAIT
    if not of.node:
        return What.PLACE
    if of.parked:
        return What.WAIT if of.node_goes else What.START
    if of.node_shut and not of.taken_up:
        return What.LEAVE
    return What.ATTEND


def _wished(of: Standing, now: datetime) -> What:
    """What is due of an instance that is not to run."""
    if of.wish is Wish.STOP and of.phase is Phase.STOPPED and not (of.evicted and of.node):
        return What.WAIT
    if not of.node:
        return What.END
    if _later(of.waits_until, now):
        return What.WAIT
    if of.wish is Wish.STOP and of.phase is not Phase.STOPPED:
        return What.STOP
    # Who stops what is not kept gives it its time, and who destroys it does not.
    return What.MOVE if of.phase in {Phase.STOPPING, Phase.STOPPED} else What.DESTROY


def _next(of: Standing, now: datetime) -> datetime | None:
    """When something may be due that is not due now."""
    times = [of.waits_until, *(each.waits_until for each in of.leftovers if each.within_reach)]
    return min((time for time in times if time is not None and time > now), default=None)


def _later(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now
