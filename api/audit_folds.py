"""Calls that repeat: the first is written into the audit trail at once, those that follow within a
window are counted and become one line at its end.

So nobody fills the trail by being refused, or by reading the same secret all day. A process that is
killed loses the counts of the windows that were open."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

from domain.audit import Deed

SUBJECTS_APART = 30
"""So many subjects of one caller have lines of their own within a window; the rest share one."""

SEVERAL = "(several)"
KINDS = 10_000
"""So many windows are open at once; beyond that all of them are ended."""


class Kind(NamedTuple):
    """What is counted together."""

    user: str
    source: str
    method: str
    reason: str
    subject: str


class Window:
    """What was counted since the first."""

    def __init__(self, deed: Deed, until: float) -> None:
        self.deed = deed
        self.until = until
        self.count = 0


class Folds:
    def __init__(self, write: Callable[[Deed], Awaitable[None]]) -> None:
        self._write = write
        self._open: dict[Kind, Window] = {}
        self._subjects: Counter[tuple[str, str]] = Counter()
        self._ending: asyncio.Task[None] | None = None

    def take(self, deed: Deed, seconds: float) -> Deed | None:
        """What is to be written of this call now. None: it is counted, for the window's end."""
        kind = self._kind(deed)
        if window := self._open.get(kind):
            window.count += 1
            window.deed = deed.model_copy(update={"subject": kind.subject})
            return None
        deed = deed.model_copy(update={"subject": kind.subject})
        self._open[kind] = Window(deed, _clock() + seconds)
        self._subjects[kind.user, kind.source] += 1
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end())
        return deed

    async def close(self) -> None:
        """Write what was counted, all of it."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.wait([self._ending])
        await self._end_those(list(self._open))

    def _kind(self, deed: Deed) -> Kind:
        kind = Kind(deed.user, deed.source, deed.method, deed.reason or deed.code, deed.subject)
        many = self._subjects[kind.user, kind.source] >= SUBJECTS_APART
        return kind._replace(subject=SEVERAL) if many and kind not in self._open else kind

    async def _end(self) -> None:
        while self._open:
            soonest = min(window.until for window in self._open.values())
            if len(self._open) < KINDS:
                await asyncio.sleep(soonest - _clock())
            limit = _clock() if len(self._open) < KINDS else float("inf")
            await self._end_those([kind for kind, it in self._open.items() if it.until <= limit])

    async def _end_those(self, kinds: list[Kind]) -> None:
        ended = [self._open.pop(kind) for kind in kinds]
        for kind in kinds:
            self._subjects[kind.user, kind.source] -= 1
        self._subjects += Counter()  # drops who has none any more
        for window in ended:
            if window.count:
                told = {"count": window.count, "time": datetime.now(UTC)}
                await self._write(window.deed.model_copy(update=told))


def _clock() -> float:
    return asyncio.get_running_loop().time()
