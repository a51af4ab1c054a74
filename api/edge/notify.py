"""Notify: each side tells the other what there is, and again whenever that has changed.

After the handshake the two directions have nothing to do with each other. A peer is told everything
it wants, then that this was all, then what changes, in the order in which it was committed; what it
says is taken in as it comes (`api/edge/hearing.py`)."""

import asyncio
from collections.abc import AsyncIterator

import structlog

from api.asking import Context
from api.edge import binding, notices
from api.edge.hearing import Hearing
from api.edge.presence import Presence
from api.edge.streams import Stream, Streams
from api.edge.telling import Telling
from domain.errors import DomainError
from domain.refusal import Refusal
from protos.gen.edge.notice_pb2 import VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiServicer

log = structlog.get_logger()

OPTIONS: dict[str, int] = {
    "grpc.http2.min_ping_interval_without_data_ms": 1_000,
    "grpc.http2.max_ping_strikes": 0,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 20_000,
    # The library waits a minute for the answer to any ping, its own too, unless this is said.
    "grpc.http2.ping_timeout_ms": 20_000,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.max_connection_idle_ms": 90_000,
}
"""What holds an idle stream of a stock client for as long as both live. One that answers no ping is
gone within a minute: half of that is silence, before it is asked. There is no limit to the
age of a connection. The library ignores names that it does not know."""


class NotifyApi(NotifyApiServicer):
    def __init__(
        self, streams: Streams, telling: Telling, hearing: Hearing, presence: Presence
    ) -> None:
        self._streams = streams
        self._telling = telling
        self._hearing = hearing
        self._presence = presence

    async def StreamNotice(
        self, request_iterator: AsyncIterator[Notice], context: Context
    ) -> AsyncIterator[Notice]:
        asked = await anext(request_iterator, None)
        if asked is None or asked.action != VERSION:
            raise Refusal.NOTIFY_VERSION()
        binding.hold_to_own(filtered=asked.filter_cloudlet_key)
        await self._presence.entered()
        self._streams.begin_after(self._presence.last_stream)
        wants = [noun for name, noun in notices.NOUNS.items() if name in asked.want_objs]
        async with self._streams.opened(wants, filtered=asked.filter_cloudlet_key) as stream:
            yield notices.hello(asked)
            listening = asyncio.create_task(self._listen(stream, request_iterator))
            try:
                for noun in stream.at_once:
                    async for notice in self._telling.all(noun):
                        yield notice
                yield notices.everything_told()
                while (batch := await stream.outbox.next()) is not None:
                    for notice in await self._telling.batch(stream, batch):
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
