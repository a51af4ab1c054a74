"""Token buckets: so many at once, and so many a second after that, for each of many callers."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic
from typing import NamedTuple

CALLERS = 10_000
"""So many are remembered; who has not come for longest is forgotten, and begins with a full
bucket."""


class Rate(NamedTuple):
    per_second: float
    burst: float


class Buckets:
    """A bucket for each caller."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """What was left in a bucket, and when."""

    def take(self, caller: Hashable) -> float:
        """Take one. Returns 0, or takes none and returns the seconds until there is one."""
        left = self._now(caller)
        if left < 1:
            return (1 - left) / self._rate.per_second
        self._keep(caller, left - 1)
        return 0.0

    def lacks(self, caller: Hashable) -> float:
        """The seconds until there is one to take; 0: there is."""
        left = self._now(caller)
        return 0.0 if left >= 1 else (1 - left) / self._rate.per_second

    def _now(self, caller: Hashable) -> float:
        left, then = self._left.get(caller, (self._rate.burst, 0.0))
        if not then:
            return left
        return min(left + (self._clock() - then) * self._rate.per_second, self._rate.burst)

    def _keep(self, caller: Hashable, left: float) -> None:
        self._left[caller] = (left, self._clock())
        self._left.move_to_end(caller)
        if len(self._left) > CALLERS:
            self._left.popitem(last=False)
