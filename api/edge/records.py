"""The verbs that all records share: created, changed by a mask, deleted, shown by example."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Generic, TypeVar

from google.protobuf.message import Message

from api.asking import asked
from api.edge import keys
from api.edge.masks import Mask, mask
from api.edge.matching import matches, narrows
from domain.record import Need, Noun, Record
from store.shelf import Kept, Shelf

FIRST_PAGE = 20
LARGEST_PAGE = 500
PAGE_BYTES = 1024 * 1024
"""About what one page may weigh. Records differ by a factor of a thousand, so each page is cut to
what the last one weighed."""

Shown = TypeVar("Shown", bound=Message)


class Records(Generic[Shown]):
    """The records of one noun, and the message that describes them."""

    def __init__(
        self,
        shelf: Shelf,
        noun: Noun,
        message: type[Shown],
        described: Callable[[Shown], Record],
        *,
        lax: bool = False,
    ) -> None:
        self._shelf = shelf
        self._noun = noun
        self._message = message
        self._described = described
        self._lax = lax

    async def create(self, given: Shown, needs: Iterable[Need] = ()) -> None:
        await self._shelf.create(self._described(given), list(needs), asked(given))

    async def update(
        self, given: Shown, check: Callable[[Shown, Mask], None] = lambda _merged, _mask: None
    ) -> None:
        """Change what the mask names, unless `check` refuses what comes of it. An empty mask names
        nothing, and there has to be a record all the same."""
        named = self.mask(given)

        def changed(before: bytes) -> Record:
            merged = self._message.FromString(before)
            named.merge(merged, given)
            check(merged, named)
            return self._described(merged)

        await self._shelf.change(self._noun, keys.of(given), changed, asked(given))

    async def put(self, given: Shown) -> None:
        """Take a new record as it is given, and of one that is there change what the mask names."""
        named = self.mask(given)

        def changed(before: bytes | None) -> Record:
            if before is None:
                return self._described(given)
            merged = self._message.FromString(before)
            named.merge(merged, given)
            return self._described(merged)

        await self._shelf.put(self._noun, keys.of(given), changed, asked(given))

    async def delete(self, given: Shown) -> None:
        await self._shelf.delete(self._noun, keys.of(given), asked(given))

    def mask(self, given: Shown) -> Mask:
        return mask(given, lax=self._lax)

    async def get(self, given: Shown) -> Shown | None:
        value = await self._shelf.get(self._noun, keys.of(given))
        return None if value is None else self._message.FromString(value)

    async def show(self, example: Shown) -> AsyncIterator[Shown]:
        """Records like the example, by their keys. They are read page by page: what comes or goes
        meanwhile may be among them or not, and none is shown twice."""
        narrow = narrows(example)
        async with aclosing(self._pages(example)) as pages:
            async for page in pages:
                for kept in page:
                    message = self._message.FromString(kept.value)
                    if not narrow or matches(example, message):
                        yield message

    async def _pages(self, example: Shown) -> AsyncGenerator[list[Kept], None]:
        if keys.is_whole(getattr(example, "key")):  # noqa: B009 (not every message has one)
            value = await self._shelf.get(self._noun, keys.of(example))
            yield [] if value is None else [Kept("", value)]
            return
        most, after = FIRST_PAGE, ""
        while page := list(await self._shelf.page(self._noun, after, most)):
            yield page
            if len(page) < most:
                return
            after = page[-1].key
            weight = sum(len(kept.value) for kept in page) + 1
            most = max(1, min(LARGEST_PAGE, most * PAGE_BYTES // weight))
