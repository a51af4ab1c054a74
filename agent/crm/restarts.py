"""Restarts: what ends again and again is not well, though it runs whenever somebody looks."""

from collections import deque
from time import monotonic

LOOP_SECONDS = 300.0
"""So far back restarts are counted."""

LOOP_RESTARTS = 2
"""More than one within that time is a loop."""


class Restarts:
    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def is_loop(self, name: str, count: int) -> bool:
        """Whether something, which has been restarted so often by now, is restarted again and
        again."""
        now, seen = monotonic(), self._seen.setdefault(name, deque())
        if not seen or seen[-1][1] != count:
            seen.append((now, count))
        while len(seen) > 1 and seen[1][0] < now - LOOP_SECONDS:
            seen.popleft()
        return count - seen[0][1] >= LOOP_RESTARTS and seen[-1][0] >= now - LOOP_SECONDS

    def keep_only(self, names: set[str]) -> None:
        """Forget all others."""
        for name in self._seen.keys() - names:
            del self._seen[name]
