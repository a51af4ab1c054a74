"""Wakes those who follow an operation when a line is added to its journal.

One per process, not one per follower. While anyone follows, it asks every 50 ms how far the
followed operations have come. It only wakes; followers read their own rows."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import DomainError
from domain.operation import OperationId
from store.engine import Database, Store, reading
from store.rows import OperationRow

TICK_SECONDS = 0.05

log = structlog.get_logger()


class Tail(Store):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._followers: dict[OperationId, set[asyncio.Event]] = defaultdict(set)
        self._seen: dict[OperationId, int] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, operation: OperationId) -> Iterator[asyncio.Event]:
        """An event that is set whenever the operation's journal has grown."""
        news = asyncio.Event()
        self._followers[operation].add(news)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield news
        finally:
            self._followers[operation].discard(news)
            if not self._followers[operation]:
                del self._followers[operation]
                self._seen.pop(operation, None)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        while self._followers:
            try:
                for operation, events in (await self._heads(list(self._followers))).items():
                    followers = self._followers.get(operation)  # they may have left meanwhile
                    if followers and self._seen.get(operation) != events:
                        self._seen[operation] = events
                        for news in followers:
                            news.set()
            except DomainError as error:  # followers look by themselves meanwhile
                log.warning("journal not read", error=error.message)
                await asyncio.sleep(1)
            await asyncio.sleep(TICK_SECONDS)

    @reading
    async def _heads(
        self, session: AsyncSession, operations: list[OperationId]
    ) -> dict[OperationId, int]:
        rows = await session.execute(
            select(OperationRow.id, OperationRow.events).where(OperationRow.id.in_(operations))
        )
        return {OperationId(row.id): row.events for row in rows}
