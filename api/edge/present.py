"""What there is at the moment, as the messages by which it is told: described records as the bytes
they are kept as, instances as they stand.

Streams tend to ask for the same at the same time; they are answered together."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

from api.edge import instances
from api.edge.remembered import Remembered
from domain.record import Noun
from domain.standing import ClusterInstStanding
from store.appinsts import AppInsts, Noted
from store.clusterinsts import ClusterInsts
from store.gather import Gather
from store.shelf import Kept, Shelf

MOST_KEYS = 500
"""That one question to the database may name."""

PAGE = 100

Question: TypeAlias = tuple[Noun, Sequence[str]]


class Present:
    def __init__(
        self, shelf: Shelf, clusters: ClusterInsts, apps: AppInsts, remembered: Remembered
    ) -> None:
        self._shelf = shelf
        self._instances: dict[Noun, ClusterInsts | AppInsts] = {
            Noun.CLUSTER_INST: clusters,
            Noun.APP_INST: apps,
        }
        self._remembered = remembered
        self._gather: Gather[Question, dict[str, bytes]] = Gather(self._look_up)

    async def several(self, noun: Noun, keys: Sequence[str]) -> dict[str, bytes]:
        """Those that there are of some, by their keys."""
        return await self._gather.ask((noun, tuple(keys)))

    async def all(self, noun: Noun, cloudlet: str = "") -> AsyncGenerator[Sequence[Kept], None]:
        """All of a noun by their keys, page by page; of instances, if it is said, those of one
        cloudlet."""
        after = ""
        while page := await self._page(noun, after, cloudlet):
            yield page
            after = page[-1].key

    async def _page(self, noun: Noun, after: str, cloudlet: str) -> Sequence[Kept]:
        if noun not in self._instances:
            return await self._shelf.page(noun, after, PAGE)
        return list(map(self._kept, await self._instances[noun].page(after, PAGE, cloudlet)))

    async def _look_up(self, questions: Sequence[Question]) -> list[dict[str, bytes] | Exception]:
        wanted: dict[Noun, dict[str, None]] = defaultdict(dict)
        for noun, keys in questions:
            wanted[noun].update(dict.fromkeys(keys))
        found = {noun: await self._found(noun, list(keys)) for noun, keys in wanted.items()}
        return [found[noun] for noun, _ in questions]

    async def _found(self, noun: Noun, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for begin in range(0, len(keys), MOST_KEYS):
            some = keys[begin : begin + MOST_KEYS]
            if noun in self._instances:
                there = map(self._kept, await self._instances[noun].several(some))
                found |= {kept.key: kept.value for kept in there}
            else:
                found |= await self._shelf.several(noun, some)
        return found

    def _kept(self, there: ClusterInstStanding | Noted) -> Kept:
        if isinstance(there, Noted):
            return Kept(there.key, self._remembered.written(there))
        return Kept(there.key, instances.clusterinst_message(there).SerializeToString())
