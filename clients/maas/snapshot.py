"""One list of all machines for everybody who looks at about the same time.

MAAS takes seconds to list a large region, so it is asked once for all clusters and not for each,
and never again before ten times as long has passed as its last answer took."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from clients.maas.seen import SeenMachine

FRESH_SECONDS = 10.0
SHARE = 10.0


class Snapshot:
    def __init__(
        self,
        fetch: Callable[[], Awaitable[Sequence[SeenMachine]]],
        *,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._fetch = fetch
        self._fresh_seconds = fresh_seconds
        self._asking = asyncio.Lock()
        self._machines: dict[str, SeenMachine] = {}
        self._good_until = float("-inf")

    async def machines(self) -> dict[str, SeenMachine]:
        """All machines by system id, at most some seconds old. A list that fails fails for those
        who wait for it; whoever comes later asks again."""
        async with self._asking:
            began = monotonic()
            if began >= self._good_until:
                self._machines = {one.system_id: one for one in await self._fetch()}
                took = monotonic() - began
                self._good_until = began + max(self._fresh_seconds, took * SHARE)
            return self._machines
