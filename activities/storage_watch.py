"""The watch over a Ceph cluster, which asks so that nobody else has to.

It is no activity: nothing is to be done again if it dies. It runs in every process that keeps
books, and a claim in the rows has one of them look in each interval. It goes on while Temporal is
away."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from domain.errors import DomainError
from domain.storage_home import Home
from domain.storage_look import Look
from domain.storage_ports import Sight
from store.observations import Observations

PER_INTERVAL = 10
"""How often each process asks whether it is time. The longest delay is as much of an interval."""

log = structlog.get_logger()


class StorageWatch:
    def __init__(
        self,
        observations: Observations,
        storage: Sight,
        cluster: str,
        every: timedelta,
        home: Callable[[], Awaitable[Home | None]] | None = None,
    ) -> None:
        """`home` looks at the Kubernetes that it belongs to, if it belongs to one."""
        self._observations = observations
        self._storage = storage
        self._cluster = cluster
        self._every = every
        self._home = home
        self._said = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        pause = self._every.total_seconds() / PER_INTERVAL
        while True:
            try:
                await self.turn()
            except DomainError as error:  # of our own database
                log.warning("storage not watched", error=error.message)
            except Exception:
                log.exception("storage watch went wrong")
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311 (jitter)

    async def turn(self) -> bool:
        """Look, if it is time and nobody else does. Says whether it was us."""
        if not await self._observations.due(self._cluster, self._every):
            return False
        if not await self._observations.claim(self._cluster, self._every):
            return False
        try:
            seen = await self._storage.observe()
        except DomainError as error:
            await self._observations.failed(self._cluster, error.message)
            self._tell(error.message)
        else:
            home, trouble = await self._at_home()
            await self._observations.keep(self._cluster, Look(observation=seen, home=home))
            self._tell(trouble)
        return True

    async def _at_home(self) -> tuple[Home | None, str]:
        """What there is, or why that cannot be seen: then Ceph's own word has to do."""
        try:
            return (await self._home() if self._home else None), ""
        except DomainError as error:
            return None, error.message

    def _tell(self, trouble: str) -> None:
        """Once when it begins and once when it ends, not every time."""
        if trouble and not self._said:
            log.warning("storage not seen", cluster=self._cluster, error=trouble)
        elif self._said and not trouble:
            log.info("storage seen again", cluster=self._cluster)
        self._said = trouble
