"""One list of all machines for everybody who looks at about the same time.

MAAS takes seconds to list a large region, so it is asked once for all clusters and not for each,
and never again before ten times as long has passed as its last answer took."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import TypeAlias

from clients.maas.seen import SeenMachine

FRESH_SECONDS = 10.0
SHARE = 10.0

_ByName: TypeAlias = dict[str, SeenMachine]


class Snapshot:
    def __init__(
        self,
        fetch: Callable[[], Awaitable[Sequence[SeenMachine]]],
        *,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._fetch = fetch
        self._fresh_seconds = fresh_seconds
        self._asking: asyncio.Task[_ByName] | None = None
        self._good_until = float("-inf")

    async def machines(self) -> _ByName:
        """All machines by system id, at most some seconds old. A list that fails fails for all who
        wait for it, and for whoever comes while a good one would be fresh, or as long again as it
        took to fail: a MAAS that hangs keeps nobody waiting in turn. Whoever does not wait for it
        leaves it to the others."""
        if self._asking is None or (self._asking.done() and monotonic() >= self._good_until):
            self._asking = asyncio.create_task(self._ask())
            self._asking.add_done_callback(_heard)
        return await asyncio.shield(self._asking)

    async def _ask(self) -> _ByName:
        began, share = monotonic(), 1.0
        try:
            machines = {one.system_id: one for one in await self._fetch()}
            share = SHARE
        finally:
            ended = monotonic()
            self._good_until = ended + max(self._fresh_seconds, (ended - began) * share)
        return machines


def _heard(asking: asyncio.Task[_ByName]) -> None:
    """A failure counts as heard though nobody may have waited for it."""
    if not asking.cancelled():
        asking.exception()
