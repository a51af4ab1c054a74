"""The images of a node: fetched once, told of, and dropped once nobody asks for them."""

import asyncio
from collections.abc import Sequence

import pytest

from agent.images import Images
from agent.ledger import Ledger
from agent.simulated import Simulated
from domain.errors import Conflict, Failed
from domain.happening import Kind
from domain.pod import Image


class Slow(Simulated):
    """Fetches nothing before it is told to, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.asked = asyncio.Event(), 0
        self.refuses: set[str] = set()
        self.credentials: list[str] = []

    async def fetch(self, uri: str, credentials: str = "") -> Image:
        self.asked += 1
        self.credentials.append(credentials)
        await self.go.wait()
        if uri in self.refuses:
            raise Failed(f"{uri} cannot be pulled")
        return await super().fetch(uri, credentials)

    async def remove_image(self, id: str) -> None:
        if id in self.refuses:
            raise Conflict(f"a pod is made of {id}")
        await super().remove_image(id)


def happened(ledger: Ledger) -> Sequence[Kind]:
    return [heard.happening.kind for heard in ledger.happened(0, 0)]


async def test_who_asks_for_the_same_at_once_shares_the_work() -> None:
    runtime, ledger = Slow(), Ledger(None)
    images = Images("n1", runtime, ledger)
    several = [asyncio.create_task(images.fetch("builtin:idle", "secret")) for _ in range(5)]
    await asyncio.sleep(0)
    several[0].cancel()  # who hangs up does not stop it for the others
    runtime.go.set()
    found = await asyncio.gather(*several, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert len({image.id for image in found[1:] if isinstance(image, Image)}) == 1
    assert (runtime.asked, runtime.credentials) == (1, ["secret"])
    assert happened(ledger) == [Kind.IMAGE_IMPORTED]


async def test_what_failed_is_tried_again_by_the_next() -> None:
    runtime = Slow()
    images = Images("n1", runtime, Ledger(None))
    runtime.go.set()
    runtime.refuses = {"builtin:idle"}
    with pytest.raises(Failed):
        await images.fetch("builtin:idle")
    runtime.refuses = set()
    assert (await images.fetch("builtin:idle")).id
    assert runtime.asked == 2


async def test_an_image_that_nobody_asks_for_goes_unless_a_pod_is_made_of_it() -> None:
    runtime, ledger = Slow(), Ledger(None)
    images = Images("n1", runtime, ledger)
    runtime.go.set()
    idle, web = await images.fetch("builtin:idle"), await images.fetch("builtin:web")
    await images.drop_unused(3600)
    assert len(ledger.images()) == 2, "both were asked for within the hour"
    runtime.refuses = {web.id}
    await images.drop_unused(-1)
    assert [image.id for image in ledger.images()] == [web.id]
    assert idle.id not in {image.id for image in await runtime.images()}
    assert happened(ledger)[2:] == [Kind.IMAGE_REMOVED]
