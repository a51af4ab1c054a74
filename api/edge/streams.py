"""The streams of notify that this process holds: what each is to be told of, and which of them
speaks for a cloudlet.

A cloudlet is spoken for by the stream that described it last; of two that are here, by the newer
one, since the older is what a broken connection left behind. Whoever does not speak for a cloudlet
any more is told nothing of it and not listened to about it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeAlias

import structlog

from api.edge import notices
from api.edge.outbox import Outbox
from domain.errors import DomainError, Unavailable
from domain.record import Noun
from store.changes import Change, Place
from store.lookout import Lookout

AT_ONCE = 50
"""Changes that streams are marked with before others get their turn."""

AGAIN_SECONDS = 1.0
"""Between two tries to find out who speaks for a cloudlet."""

Described: TypeAlias = Callable[[str], Awaitable[int | None]]
"""By which stream of this process a cloudlet was described last, by the stream's number. 0: by none
of them. None: it is not described."""

log = structlog.get_logger()


class Stream:
    """A peer that is connected."""

    def __init__(self, number: int, wants: Sequence[Noun], *, filtered: bool) -> None:
        """`filtered`: of what is on cloudlets it is told nothing but of its own, and of apps only
        with what runs of them."""
        self.number = number
        self.wants = wants
        self.filtered = filtered
        self.outbox = Outbox(wants)
        self.cloudlets: set[str] = set()
        """The keys of those it is told of."""
        self.strange: set[tuple[Noun, str]] = set()
        """What it has not been told of yet, of what was there when it came. What it may have failed
        to delete waits until it has said all."""
        self.spoken_for: set[str] = set()
        """Those it has described."""
        self.has_said_all = False
        """All there was when it came."""

    @property
    def at_once(self) -> Sequence[Noun]:
        """What it is told of before it has said anything."""
        return [noun for noun in self.wants if not (self.filtered and _waits(noun))]


class Streams:
    def __init__(self, lookout: Lookout, described: Described) -> None:
        self._lookout = lookout
        self._described = described
        self._numbers = count(1)
        self._begun = False
        self._open: set[Stream] = set()
        self._owners: dict[str, Stream] = {}
        self._at: dict[str, set[Stream]] = defaultdict(set)
        self._starting = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def begin_after(self, number: int) -> None:
        """Have the first stream get a higher number: what a former life of this process still
        writes of its own streams is not written of ours."""
        if not self._begun:
            self._numbers = count(number + 1)

    @asynccontextmanager
    async def opened(self, wants: Sequence[Noun], *, filtered: bool) -> AsyncIterator[Stream]:
        """A stream that from here on misses no change of what it wants."""
        self._begun = True
        stream = Stream(next(self._numbers), wants, filtered=filtered)
        self._open.add(stream)
        try:
            await self._follow()
            yield stream
        finally:
            self._open.discard(stream)
            for cloudlet in list(stream.cloudlets):
                self.forget(stream, cloudlet)
            for cloudlet in [key for key, owner in self._owners.items() if owner is stream]:
                del self._owners[cloudlet]
            if not self._open and self._following:
                self._leave_off(self._following)

    def claim(self, stream: Stream, cloudlet: str) -> bool:
        """Speak for a cloudlet from here on, if no newer stream does."""
        owner = self._owners.get(cloudlet)
        if owner is not None and owner.number > stream.number:
            return False
        if owner is not None and owner is not stream:
            self._displace(owner, cloudlet)
        self._owners[cloudlet] = stream
        return True

    def speaks(self, stream: Stream, cloudlet: str) -> bool:
        """Whether a stream is to be listened to about a cloudlet: it speaks for it, or nobody does
        and it never has. Whoever lost it to a stream at another process has to describe it anew."""
        owner = self._owners.get(cloudlet)
        return owner is stream or (owner is None and cloudlet not in stream.spoken_for)

    def resign(self, stream: Stream, cloudlet: str) -> None:
        """Speak for a cloudlet no more: another stream does, at another process."""
        if self._owners.get(cloudlet) is stream:
            self._displace(stream, cloudlet)

    def owner(self, cloudlet: str) -> Stream | None:
        """Who speaks for a cloudlet, if anybody does here."""
        return self._owners.get(cloudlet)

    def tell(self, stream: Stream, cloudlet: str) -> bool:
        """Tell a stream of a cloudlet from here on. Whether that is new."""
        new = cloudlet not in stream.cloudlets
        stream.cloudlets.add(cloudlet)
        self._at[cloudlet].add(stream)
        return new

    def forget(self, stream: Stream, cloudlet: str) -> None:
        """Tell it nothing of a cloudlet any more."""
        stream.cloudlets.discard(cloudlet)
        self._at[cloudlet].discard(stream)
        if not self._at[cloudlet]:
            del self._at[cloudlet]

    def end(self, why: str) -> None:
        """End every stream: their peers come again, and everything is told anew."""
        for stream in self._open:
            stream.outbox.end(Unavailable(why, reason="STREAM_ENDED", do="connect again"))

    async def _follow(self) -> None:
        async with self._starting:
            if self._following is None or self._following.done():
                place = await self._lookout.place()
                self._following = asyncio.create_task(self._watch(place))

    def _leave_off(self, following: asyncio.Task[None]) -> None:
        """Nobody is to be told: whoever comes next has another begin to follow, at once."""
        self._following = None
        self._ending.add(following)
        following.add_done_callback(self._ending.discard)
        following.cancel()

    async def _watch(self, place: Place) -> None:
        try:
            async for changes in self._lookout.follow(place):
                for begin in range(0, len(changes), AT_ONCE):
                    for change in changes[begin : begin + AT_ONCE]:
                        await self._changed(change)
                    await asyncio.sleep(0)
        except Exception:
            log.exception("changes cannot be followed")
            self.end("changes cannot be followed")

    async def _changed(self, change: Change) -> None:
        noun, key = change.noun, change.key
        if noun is Noun.CLOUDLET_INFO:
            await self._look_again(key)
        if noun not in notices.TOLD:
            return
        placed = notices.is_placed(noun)
        at = self._at.get(notices.cloudlet(noun, key), ()) if placed else ()
        for stream in self._open:
            if noun in stream.wants and (stream in at or not (stream.filtered and _waits(noun))):
                stream.outbox.mark(noun, key)

    async def _look_again(self, cloudlet: str) -> None:
        """Whoever has been told of a cloudlet may have lost it to a stream at another process."""
        while (owner := self._owners.get(cloudlet)) is not None and cloudlet in owner.cloudlets:
            try:
                number = await self._described(cloudlet)
            except DomainError as error:
                log.warning("cloudlet not read", error=error.message)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if number not in (None, owner.number):
                self.resign(owner, cloudlet)
            return

    def _displace(self, owner: Stream, cloudlet: str) -> None:
        log.info("cloudlet spoken for by another stream", cloudlet=cloudlet, stream=owner.number)
        del self._owners[cloudlet]
        self.forget(owner, cloudlet)


def _waits(noun: Noun) -> bool:
    return noun is Noun.APP or notices.is_placed(noun)
