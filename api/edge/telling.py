"""What a stream is told, as notices: of every record what it is when it is told."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from api.edge import notices
from api.edge.outbox import Batch
from api.edge.present import Present
from api.edge.streams import Stream
from domain.record import Noun
from protos.gen.edge.notice_pb2 import Notice


class Telling:
    def __init__(self, present: Present) -> None:
        self._present = present

    async def all(self, noun: Noun) -> AsyncIterator[Notice]:
        """Everything there is of a noun."""
        async with aclosing(self._present.all(noun)) as pages:
            async for page in pages:
                for kept in page:
                    yield notices.present(noun, kept.value)

    async def batch(self, stream: Stream, batch: Batch) -> list[Notice]:
        if batch.everything:
            return [notices.everything_told()]
        if batch.noun is None:
            return [notices.once(message) for message in batch.messages]
        heard = stream.has_said_all  # looked at first: what is said meanwhile may not be read
        told = await self._apps(stream, batch.keys) if batch.noun is Noun.APP_INST else []
        values = await self._present.several(batch.noun, batch.keys)
        for key in batch.keys:
            value = values.get(key)
            if value is None or heard or not self._waits(stream, batch.noun, key, value):
                told.append(self._one(stream, batch.noun, key, value))
        return told

    async def introduce(self, stream: Stream, cloudlet: str) -> None:
        """Have a stream that speaks for a cloudlet told of everything there, as somebody who may
        have been started anew."""
        if not stream.filtered:
            return
        if Noun.CLOUDLET in stream.wants:
            stream.outbox.mark(Noun.CLOUDLET, cloudlet)
        for noun in notices.INSTANCES:
            if noun not in stream.wants:
                continue
            async with aclosing(self._present.all(noun, cloudlet)) as pages:
                async for page in pages:
                    for kept in page:
                        stream.strange.add((noun, kept.key))
                        stream.outbox.mark(noun, kept.key)

    def resume(self, stream: Stream) -> None:
        """Tell a stream that has said all what has waited for that."""
        for noun, key in stream.strange:
            if notices.cloudlet(noun, key) in stream.cloudlets:
                stream.outbox.mark(noun, key)

    async def _apps(self, stream: Stream, instances: Sequence[str]) -> list[Notice]:
        """What runs, before where it does, to those who are not told of it otherwise."""
        if not stream.filtered or Noun.APP not in stream.wants:
            return []
        keys = list(dict.fromkeys(map(notices.app, instances)))
        values = await self._present.several(Noun.APP, keys)
        return [notices.present(Noun.APP, values[key]) for key in keys if key in values]

    def _waits(self, stream: Stream, noun: Noun, key: str, value: bytes) -> bool:
        """Whether an instance is not told of before its resource manager has said all there was
        when it came: a delete that it was asked for earlier may have failed by then, and nobody
        wants it any more. Asked again, it would do it."""
        return (noun, key) in stream.strange and notices.asks_to_delete(noun, value)

    def _one(self, stream: Stream, noun: Noun, key: str, value: bytes | None) -> Notice:
        if value is None:
            stream.strange.discard((noun, key))
            return notices.gone(noun, key)
        if (noun, key) in stream.strange:
            stream.strange.remove((noun, key))
            value = notices.asked_again(noun, value)
        return notices.present(noun, value)
