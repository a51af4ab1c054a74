"""The images of a node: fetched once however many ask, told of, and dropped when nobody does."""

import asyncio
import time
from contextlib import suppress

from agent.ledger import Ledger
from agent.runtime import Runtime
from domain.errors import DomainError
from domain.happening import Happening, Kind
from domain.pod import Image


class Images:
    def __init__(self, node: str, runtime: Runtime, ledger: Ledger) -> None:
        self._node, self._runtime, self._ledger = node, runtime, ledger
        self._fetching: dict[str, asyncio.Task[Image]] = {}

    async def fetch(self, uri: str, credentials: str = "") -> Image:
        """Have an image here. Who hangs up does not stop it for those who ask for the same."""
        task = self._fetching.get(uri)
        if task is None:
            task = self._fetching[uri] = asyncio.create_task(self._runtime.fetch(uri, credentials))
            task.add_done_callback(lambda _: self._fetching.pop(uri, None))
        image = await asyncio.shield(task)
        with self._ledger.together():
            if self._ledger.tell_image(image, int(time.time())):
                self._happened(Kind.IMAGE_IMPORTED, image)
        return image

    async def drop_unused(self, kept_seconds: float) -> None:
        """Drop what nobody has asked for so long. What a pod is made of stays."""
        unused = set(self._ledger.unused_images(int(time.time() - kept_seconds)))
        for image in self._ledger.images():
            if image.id in unused:
                with suppress(DomainError):
                    await self._runtime.remove_image(image.id)
                    self.forget(image)

    def forget(self, image: Image) -> None:
        with self._ledger.together():
            self._ledger.tell_image_gone(image.id)
            self._happened(Kind.IMAGE_REMOVED, image)

    def _happened(self, kind: Kind, image: Image) -> None:
        told = (("node", self._node), ("version", image.version))
        one = Happening(kind=kind, id=image.id, name=image.name, time_ns=time.time_ns(), data=told)
        self._ledger.tell(one)
