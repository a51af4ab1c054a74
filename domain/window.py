"""What has to be known to show pods, images, events and logs. The control plane knows it of the
whole fleet, from what nodes report; a node knows it of itself."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from domain.happening import Heard, Place
from domain.logline import Chunk
from domain.pod import Image, Pod

PAGE = 1000
"""The most happenings, or chunks of a log, that are told at once."""


class Window(Protocol):
    """Reads only. Nothing here waits for a node."""

    async def pods(self, *, prefix: str = "", node: str = "", tenant: str = "") -> Sequence[Pod]:
        """All whose ids begin so, by id."""

    async def images(self, *, node: str = "") -> Sequence[Image]:
        """All of them, each once, by name, version and id."""

    async def happened(self, after: Place, *, since_ns: int = 0) -> Sequence[Heard]:
        """What happened past a place and later than a time, in the order in which it may be
        followed, and a page of it at most."""

    async def now(self) -> Place:
        """The place past everything that has happened so far."""

    async def log(self, pod: str, app: str, after: int) -> Sequence[Chunk]:
        """What an app has written past an offset, and a page of it at most. What was forgotten is
        passed over."""

    async def log_end(self, pod: str, app: str, before: int | None) -> Sequence[Chunk]:
        """What an app has written last before an offset, in its order, and a page of it at most.
        None: before its end."""

    def watching(self) -> AbstractContextManager[asyncio.Event]:
        """An event that is set whenever something may have happened or been written. Clear it,
        look, and only then wait for it; and look by yourself now and then."""
