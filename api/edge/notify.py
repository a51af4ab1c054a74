"""Notify: each side tells the other what there is, and again whenever that has changed.

After the handshake the two directions have nothing to do with each other. A peer is told everything
it wants, then that this was all, then what changes, in the order in which it was committed; what it
says is taken in as it comes (`api/edge/hearing.py`)."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

import structlog

from api.asking import Context
from api.edge import notices
from api.edge.hearing import Hearing
from api.edge.outbox import Batch
from api.edge.presence import Presence
from api.edge.streams import Stream, Streams
from domain.errors import DomainError
from domain.record import Noun
from domain.refusal import Refusal
from protos.gen.edge.notice_pb2 import VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiServicer
from store.gather import Gather
from store.shelf import Shelf

PAGE = 100
MOST_KEYS = 500
"""That one question to the database may name."""

Question: TypeAlias = tuple[Noun, Sequence[str]]

log = structlog.get_logger()

OPTIONS: dict[str, int] = {
    "grpc.http2.min_ping_interval_without_data_ms": 1_000,
    "grpc.http2.max_ping_strikes": 0,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 30_000,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.max_connection_idle_ms": 90_000,
}
"""What holds an idle stream of a stock client for as long as both live. There is no limit to the
age of a connection. The library ignores names that it does not know."""


class NotifyApi(NotifyApiServicer):
    def __init__(
        self, shelf: Shelf, streams: Streams, hearing: Hearing, presence: Presence
    ) -> None:
        self._shelf = shelf
        self._streams = streams
        self._hearing = hearing
        self._presence = presence
        self._looked_up: Gather[Question, dict[str, bytes]] = Gather(self._look_up)

    async def StreamNotice(
        self, request_iterator: AsyncIterator[Notice], context: Context
    ) -> AsyncIterator[Notice]:
        asked = await anext(request_iterator, None)
        if asked is None or asked.action != VERSION:
            raise Refusal.NOTIFY_VERSION()
        await self._presence.entered()
        wants = [noun for name, noun in notices.NOUNS.items() if name in asked.want_objs]
        async with self._streams.opened(wants, filtered=asked.filter_cloudlet_key) as stream:
            yield notices.hello(asked)
            listening = asyncio.create_task(self._listen(stream, request_iterator))
            try:
                for noun in stream.at_once:
                    async for notice in self._all(noun):
                        yield notice
                yield notices.everything_told()
                while (batch := await stream.outbox.next()) is not None:
                    for notice in await self._put(stream, batch):
                        yield notice
            finally:
                listening.cancel()
                await asyncio.wait([listening])
                self._hearing.over(stream)

    async def _listen(self, stream: Stream, said: AsyncIterator[Notice]) -> None:
        """Take in what is said until nothing more comes, which is the end of the stream."""
        error: DomainError | None = None
        try:
            async for notice in said:
                await self._hearing.take(stream, notice)
        except DomainError as refusal:
            error = refusal
        except Exception:
            log.exception("a stream cannot be read")
        finally:
            stream.outbox.end(error)

    async def _all(self, noun: Noun) -> AsyncIterator[Notice]:
        after = ""
        while page := await self._shelf.page(noun, after, PAGE):
            for kept in page:
                yield notices.present(noun, kept.value)
            after = page[-1].key

    async def _look_up(self, questions: Sequence[Question]) -> list[dict[str, bytes]]:
        """What streams ask for at the same time, which is often the same."""
        wanted: dict[Noun, dict[str, None]] = defaultdict(dict)
        for noun, keys in questions:
            wanted[noun].update(dict.fromkeys(keys))
        found: dict[Noun, dict[str, bytes]] = defaultdict(dict)
        for noun, each in wanted.items():
            keys = list(each)
            for begin in range(0, len(keys), MOST_KEYS):
                some = keys[begin : begin + MOST_KEYS]
                found[noun] |= await self._shelf.several(noun, some)
        return [found[noun] for noun, _ in questions]

    async def _put(self, stream: Stream, batch: Batch) -> list[Notice]:
        """A batch as notices: of every record what it is now."""
        if batch.noun is None:
            return [notices.once(message) for message in batch.messages]
        noun = batch.noun
        values = await self._looked_up.ask((noun, tuple(batch.keys)))
        return [_told(noun, key, values.get(key)) for key in batch.keys]


def _told(noun: Noun, key: str, value: bytes | None) -> Notice:
    return notices.gone(noun, key) if value is None else notices.present(noun, value)
