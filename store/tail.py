"""Wakes those who follow something when a line is added to its journal: an operation, or whatever
else counts its lines in its row.

One per process, not one per follower. While anyone follows, it asks every 50 ms how far the
followed rows have come. It only wakes; followers read their own rows."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from domain.errors import DomainError
from store.engine import Database, Store, reading
from store.rows import OperationRow

TICK_SECONDS = 0.05


class News(asyncio.Event):
    """Set when a journal has grown past what its follower knows."""

    known: int | None = None
    """How many lines those are. Whoever reads by himself says so here, and is not woken for it."""


log = structlog.get_logger()


class Tail(Store):
    def __init__(
        self,
        database: Database,
        key: InstrumentedAttribute[str] = OperationRow.id,
        count: InstrumentedAttribute[int] = OperationRow.events,
    ) -> None:
        """`key` tells the followed rows apart, and `count` how many lines each has."""
        super().__init__(database)
        self._key, self._count = key, count
        self._followers: dict[str, set[News]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, subject: str) -> Iterator[News]:
        """An event that is set whenever the subject's journal has grown."""
        news = News()
        self._followers[subject].add(news)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield news
        finally:
            self._followers[subject].discard(news)
            if not self._followers[subject]:
                del self._followers[subject]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        while self._followers:
            try:
                for subject, events in (await self._heads(list(self._followers))).items():
                    for news in self._followers.get(subject, ()):  # they may have left meanwhile
                        if news.known != events:
                            news.known = events
                            news.set()
            except DomainError as error:  # followers look by themselves meanwhile
                log.warning("journal not read", error=error.message)
                await asyncio.sleep(1)
            except Exception:  # it would end for all who follow, and say nothing
                log.exception("journal not read")
                await asyncio.sleep(1)
            await asyncio.sleep(TICK_SECONDS)

    @reading
    async def _heads(self, session: AsyncSession, followed: list[str]) -> dict[str, int]:
        rows = await session.execute(select(self._key, self._count).where(self._key.in_(followed)))
        return dict(rows.all())
