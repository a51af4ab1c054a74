"""Wakes all who wait for news in this process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Bell:
    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()

    def ring(self) -> None:
        for news in self._listeners:
            news.set()

    @contextmanager
    def watching(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is news."""
        news = asyncio.Event()
        self._listeners.add(news)
        try:
            yield news
        finally:
            self._listeners.discard(news)
