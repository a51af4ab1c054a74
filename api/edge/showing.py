"""Showing by example what is no record: it is made into messages as it is read, or into what is
written of them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from api.edge import keys
from api.edge.matching import matches, narrows
from api.written import opened

PAGE = 500

Standing = TypeVar("Standing", covariant=True)
Stood = TypeVar("Stood")
Shown = TypeVar("Shown", bound=Message)


class Pages(Protocol[Standing]):
    """A store that is read by keys."""

    async def get(self, key: str, /) -> Standing | None: ...

    async def page(self, after: str, most: int, /) -> Sequence[Standing]: ...


class Showing(Generic[Stood, Shown]):
    def __init__(self, pages: Pages[Stood], shown: Callable[[Stood], Shown | bytes]) -> None:
        self._pages = pages
        self._shown = shown

    async def show(self, example: Shown) -> AsyncIterator[Any]:
        """What is like the example, by keys: messages, or what is written of them. It is read page
        by page: what comes or goes meanwhile may be among it or not, and nothing is shown twice."""
        narrow = narrows(example)
        async with aclosing(self._pages_of(getattr(example, "key"))) as pages:  # noqa: B009
            async for page in pages:
                # together, and not by turns with writing them
                for shown in list(map(self._shown, page)):
                    if not narrow or matches(example, opened(shown, type(example))):
                        yield shown

    async def _pages_of(self, key: Message) -> AsyncGenerator[Sequence[Any], None]:
        if keys.is_whole(key):
            one = await self._pages.get(keys.written(key))
            yield [] if one is None else [one]
            return
        ahead = self._ahead("")
        try:
            while len(page := await ahead) == PAGE:
                ahead = self._ahead(page[-1].key)  # it is read while this one is sent
                yield page
            yield page
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    def _ahead(self, after: str) -> "asyncio.Task[Sequence[Any]]":
        return asyncio.create_task(self._read(after))

    async def _read(self, after: str) -> Sequence[Any]:
        return await self._pages.page(after, PAGE)
