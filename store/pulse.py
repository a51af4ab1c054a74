"""Wakes all who wait for news of one kind, by one look for all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog

from domain.errors import DomainError

TICK_SECONDS = 0.05
"""How late those who wait are told."""

log = structlog.get_logger()


class Pulse:
    """While anybody listens, asks every 50 ms how far things have come. It only wakes: those who
    are woken look for themselves."""

    def __init__(self, heads: Callable[[], Awaitable[object]]) -> None:
        self._heads = heads
        self._listeners: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None
        self.turn = 0
        """Grows with whatever is news."""

    @contextmanager
    def watching(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is news."""
        news = asyncio.Event()
        self._listeners.add(news)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield news
        finally:
            self._listeners.discard(news)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        seen: object = None
        while self._listeners:
            try:
                heads = await self._heads()
            except DomainError as error:  # listeners look by themselves meanwhile
                log.warning("news not read", error=error.message)
                await asyncio.sleep(1)
                continue
            except Exception:  # it would end for all who watch, and say nothing
                log.exception("news not read")
                await asyncio.sleep(1)
                continue
            if heads != seen:
                seen = heads
                self.turn += 1
                for news in self._listeners:
                    news.set()
            await asyncio.sleep(TICK_SECONDS)
