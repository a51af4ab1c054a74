"""The newest look at Ceph, for a thousand callers a second and one read of the rows."""

import asyncio

from domain.storage_look import Seen
from store.observations import Observations

FRESH_SECONDS = 1.0
"""How long what was read is handed on. A look happens every few seconds at most."""


class Newest:
    def __init__(self, observations: Observations, cluster: str) -> None:
        self._observations = observations
        self.cluster = cluster
        self._seen: Seen | None = None
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def seen(self) -> Seen:
        """What was last seen. Unavailable if nothing ever was."""
        if self._seen is None or self._over():
            async with self._reading:
                if self._seen is None or self._over():  # whoever came first has read for all
                    self._seen = await self._observations.newest(self.cluster)
                    self._until = asyncio.get_running_loop().time() + FRESH_SECONDS
        return self._seen

    def _over(self) -> bool:
        return asyncio.get_running_loop().time() >= self._until
