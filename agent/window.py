"""The window onto one node, from its own memory: what `store/window.py` is for the fleet."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager

from agent.archive import Archive
from agent.bell import Bell
from agent.ledger import Ledger
from domain.happening import Heard, Place
from domain.logline import Chunk
from domain.pod import TENANT, Image, Pod


class NodeWindow:
    """Implements `domain/window.py`."""

    def __init__(self, node: str, ledger: Ledger, archive: Archive, bell: Bell) -> None:
        self._node, self._ledger, self._archive, self._bell = node, ledger, archive, bell

    async def pods(self, *, prefix: str = "", node: str = "", tenant: str = "") -> Sequence[Pod]:
        if node not in {"", self._node}:
            return []
        found = self._ledger.pods(prefix)
        return [pod for pod in found if not tenant or pod.annotation(TENANT) == tenant]

    async def images(self, *, node: str = "") -> Sequence[Image]:
        return self._ledger.images() if node in {"", self._node} else []

    async def happened(self, after: Place, *, since_ns: int = 0) -> Sequence[Heard]:
        return self._ledger.happened(after.number, since_ns)

    async def now(self) -> Place:
        return Place(number=self._ledger.last())

    async def log(self, pod: str, app: str, after: int) -> Sequence[Chunk]:
        return self._archive.chunks(pod, app, after)

    async def log_end(self, pod: str, app: str, before: int | None) -> Sequence[Chunk]:
        return self._archive.last_chunks(pod, app, before)

    def watching(self) -> AbstractContextManager[asyncio.Event]:
        return self._bell.watching()
