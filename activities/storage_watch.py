"""The watch over a Ceph cluster, which asks so that nobody else has to.

It is no activity: nothing is to be done again if it dies. It runs in every process that keeps
books, and a claim in the rows has one of them look in each interval. It goes on while Temporal is
away."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import structlog

from domain.errors import DomainError, Unavailable
from domain.storage import Observation
from domain.storage_home import Home
from domain.storage_look import Look
from domain.storage_mons import Word, beside, instead
from domain.storage_ports import Mons, Sight
from store.observations import Observations

PER_INTERVAL = 10
"""How often each process asks whether it is time. The longest delay is as much of an interval."""

log = structlog.get_logger()


class Heard(NamedTuple):
    """What came of asking the mons."""

    word: Word | None = None
    silent: str = ""
    """That none of them answers."""
    trouble: str = ""
    """Why they could not be asked at all, which says nothing about them."""


class StorageWatch:
    def __init__(
        self,
        observations: Observations,
        storage: Sight,
        cluster: str,
        every: timedelta,
        home: Callable[[], Awaitable[Home | None]] | None = None,
        mons: Mons | None = None,
    ) -> None:
        """`home` looks at the Kubernetes that it belongs to, if it belongs to one. `mons`: whoever
        can ask them, or else the manager's word has to do."""
        self._observations = observations
        self._storage = storage
        self._cluster = cluster
        self._every = every
        self._home = home
        self._mons = mons
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
        async with asyncio.TaskGroup() as asking:
            heard = asking.create_task(self._heard())
            looked = asking.create_task(self._looked())
        seen, trouble = looked.result()
        if seen is not None:
            await self._with(seen, heard.result())
        else:
            await self._without(trouble, answered=heard.result().word is not None)
        return True

    async def _with(self, seen: Observation, heard: Heard) -> None:
        """The manager answers. What it shows is worth nothing while no mon answers, and is no
        better than what they say."""
        if heard.word is not None:
            seen = beside(seen, heard.word)
        elif heard.silent:
            seen = seen.model_copy(update={"live": False})
        home, trouble = await self._at_home()
        await self._observations.keep(self._cluster, Look(observation=seen, home=home))
        self._tell(heard.silent or heard.trouble or trouble)

    async def _without(self, trouble: str, *, answered: bool) -> None:
        """The manager gives no answer: if the mons do, their word over what was seen last."""
        heard = await self._heard(with_osds=True) if answered else Heard()
        if heard.word is not None and (last := await self._last()) is not None:
            seen = instead(last.observation, heard.word, datetime.now(UTC))
            look = last.model_copy(update={"observation": seen})
            await self._observations.keep(self._cluster, look)
        await self._observations.failed(self._cluster, trouble)
        self._tell(trouble)

    async def _looked(self) -> tuple[Observation | None, str]:
        try:
            return await self._storage.observe(), ""
        except DomainError as error:
            return None, error.message

    async def _heard(self, *, with_osds: bool = False) -> Heard:
        if self._mons is None:
            return Heard()
        try:
            return Heard(word=await self._mons.word(with_osds=with_osds))
        except DomainError as error:
            if error.reason == "CEPH_DOWN":
                return Heard(silent=error.message)
            return Heard(trouble=error.message)

    async def _last(self) -> Look | None:
        """What was seen last. None: nobody has seen it yet."""
        try:
            return (await self._observations.newest(self._cluster)).look
        except Unavailable:
            return None

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
