"""How many calls run at once: in all, of one user, and of one address before anybody is known.

A call that is refused costs a caller one answer: RESOURCE_EXHAUSTED, with a time after which to try
again. Health checks are counted apart, so that many calls do not make a server look unhealthy, and
many health checks do not keep calls out."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from api.callers import refuse
from api.origin import Called, Origins
from api.token_bucket import Buckets, Rate
from domain.access import ANYONE, NO_ONE, Permission, Role, Session
from domain.errors import Exhausted

HEALTH = "grpc.health.v1.Health/"
RETRY_SECONDS = 1


class CallLimits(NamedTuple):
    """What an operator decides about calls at once; streams are calls while they last."""

    most: int = 20_000
    per_user: int = 10_000
    per_address: int = 500
    """Whose caller is not known yet, or need not be."""
    health: int = 2_000
    health_per_address: int = 200
    streams_per_user: int = 5_000
    reads: Rate = Rate(per_second=20_000, burst=40_000)
    writes: Rate = Rate(per_second=2_000, burst=20_000)
    """What one user, or one address before anybody is known, may ask for in time."""


class Count:
    """How many there are, in all and of each key."""

    __slots__ = ("_each", "_most", "_of_one", "_what", "total")

    def __init__(self, most: int, of_one: int, what: str) -> None:
        self._most, self._of_one, self._what = most, of_one, what
        self._each: dict[str, int] = {}
        self.total = 0

    def enter(self, key: str) -> None:
        """One more. Exhausted if there are as many as there may be."""
        mine = self._each.get(key, 0)
        if mine >= self._of_one:
            raise _exhausted(f"{mine} {self._what} of {key} run already")
        if self.total >= self._most:
            raise _exhausted(f"{self.total} {self._what} run already")
        self._each[key] = mine + 1
        self.total += 1

    def leave(self, key: str) -> None:
        self.total -= 1
        left = self._each[key] - 1
        if left:
            self._each[key] = left
        else:
            del self._each[key]


class Calls:
    """The calls of one process."""

    def __init__(self, limits: CallLimits | None = None, origins: Origins | None = None) -> None:
        limits = limits or CallLimits()
        self._origins = origins or Origins()
        self.health = Count(limits.health, limits.health_per_address, "health checks")
        self._unknown = Count(limits.most, limits.per_address, "calls")
        self._known = Count(limits.most, limits.per_user, "calls")
        self.streams = Count(limits.most, limits.streams_per_user, "streams")
        self._rates = {False: Buckets(limits.reads), True: Buckets(limits.writes)}

    @contextmanager
    def arriving(self, method: str, line: Called) -> Iterator["Arrived"]:
        """Count a call while it runs: by its address, until it is known whose it is."""
        count = self.health if method.startswith(HEALTH) else self._unknown
        try:
            arrived = Arrived(self, count, self._origins.place(line))
        except Exhausted:
            refuse(line)
            raise
        try:
            yield arrived
        finally:
            arrived.leave()

    def spend(self, key: str, *, writes: bool) -> None:
        """Take one call of somebody's allowance. Exhausted says when there is one again."""
        if seconds := self._rates[writes].take(key):
            raise Exhausted(
                f"{key} asks for too many {'changes' if writes else 'answers'} at once",
                reason="RATE_LIMITED",
                do="ask again after the delay that is told",
                retry_seconds=max(1, math.ceil(seconds)),
            )

    def counted_as(self, session: Session, place: str) -> tuple[Count, str] | None:
        """How the calls of somebody are counted. None: as those of somebody unknown."""
        if session.principal == NO_ONE:
            return None
        if session.principal == ANYONE:  # where nobody signs in an address stands for a user
            return self._known, place
        return self._known, session.principal.name


class Arrived:
    """One call that is counted."""

    __slots__ = ("_calls", "_count", "_key", "_streams")

    def __init__(self, calls: Calls, count: Count, place: str) -> None:
        self._calls, self._count, self._key = calls, count, place
        self._streams = False
        count.enter(place)

    def recognise(self, session: Session) -> None:
        """Count it by its user from here on. Exhausted if that is one too many."""
        if self._count is self._calls.health:
            return
        found = self._calls.counted_as(session, self._key)
        if found is not None:
            count, key = found
            count.enter(key)
            self._count.leave(self._key)
            self._count, self._key = count, key

    def spend(self, asked: Permission, *, streams: bool) -> None:
        """Take it off what its user may ask for. Exhausted if that is too much. What agents report
        all day is theirs to say, and health checks are counted elsewhere."""
        roles = asked.roles or frozenset()
        reports = Role.AGENT in roles and Role.VIEWER not in roles
        if self._count is self._calls.health or reports:
            return
        self._calls.spend(self._key, writes=asked.changes)
        if streams:
            self._calls.streams.enter(self._key)
            self._streams = True

    def leave(self) -> None:
        self._count.leave(self._key)
        if self._streams:
            self._calls.streams.leave(self._key)


def _exhausted(message: str) -> Exhausted:
    return Exhausted(
        message,
        reason="TOO_MANY_CALLS",
        do="end some, or try again later",
        retry_seconds=RETRY_SECONDS,
    )
