"""What one stream has still to be told: keys, each of them once however often it changed, and
messages. What a key stands for is looked up when it is sent, so whoever reads slowly misses what
lies between and never what is."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from google.protobuf.message import Message

from domain.errors import DomainError, Exhausted, Unavailable
from domain.record import Noun

AT_ONCE = 100
"""Keys that are looked up together."""

MOST_KEYS = 200_000
"""A stream that far behind is better begun anew."""

MOST_MESSAGES = 1000


class Batch(NamedTuple):
    """What is sent next: messages, or keys of one noun, or that this was all."""

    messages: Sequence[Message] = ()
    noun: Noun | None = None
    keys: Sequence[str] = ()
    everything: bool = False
    """All that there was to be told has been sent before."""


class Outbox:
    def __init__(self, nouns: Iterable[Noun]) -> None:
        """Keys are sent noun by noun, in this order."""
        self._keys: dict[Noun, dict[str, None]] = {noun: {} for noun in nouns}
        self._count = 0
        self._messages: deque[Message] = deque()
        self._news = asyncio.Event()
        self._concludes = False
        self._ended = False
        self._error: DomainError | None = None

    def mark(self, noun: Noun, key: str) -> None:
        """A record was changed, or may be unknown at the other end."""
        if key in self._keys[noun] or self._ended:
            return
        if self._count == MOST_KEYS:
            self.end(_behind())
            return
        self._keys[noun][key] = None
        self._count += 1
        self._news.set()

    def unmark(self, noun: Noun, keys: Iterable[str]) -> None:
        """Do not tell of these after all."""
        for key in keys:
            if self._keys[noun].pop(key, ...) is None:
                self._count -= 1

    def post(self, message: Message) -> None:
        """Send a message, once. Exhausted if so many are waiting that it would come too late."""
        if len(self._messages) >= MOST_MESSAGES:
            raise Exhausted("the stream takes no more messages", do="try again later")
        self._messages.append(message)
        self._news.set()

    def conclude(self) -> None:
        """Say that everything has been told, once it has."""
        self._concludes = True
        self._news.set()

    def end(self, error: DomainError | None = None) -> None:
        """Nothing more is to be sent. The error is what the other end is told."""
        if not self._ended:
            self._ended, self._error = True, error
            self._news.set()

    async def next(self) -> Batch | None:
        """What is to be sent next, as soon as there is anything. None: the stream is over."""
        while not self._ended:
            if self._messages:
                messages = list(self._messages)
                self._messages.clear()
                return Batch(messages=messages)
            for noun, waiting in self._keys.items():
                if waiting:
                    keys = list(waiting)[:AT_ONCE]
                    self.unmark(noun, keys)
                    return Batch(noun=noun, keys=keys)
            if self._concludes:
                self._concludes = False
                return Batch(everything=True)
            self._news.clear()
            await self._news.wait()
        if self._error:
            raise self._error
        return None


def _behind() -> DomainError:
    return Unavailable(
        f"the stream is {MOST_KEYS} records behind",
        reason="STREAM_BEHIND",
        do="connect again: everything is told from the beginning",
    )
