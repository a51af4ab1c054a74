"""Requests that are answered by the peers of streams: sent, and waited for.

What is sent carries a number in a field that the contract does not have. Peers hand it back who
keep what they do not know; of the others the oldest request with the same offer is taken to be
meant."""

import asyncio
from itertools import count
from typing import Any, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from api.edge.streams import Stream
from domain.refusal import Refusal
from protos.gen.edge.exec_pb2 import ExecRequest

FIELD = 1000
FIXED64 = 1
"""How the number is written on the wire: as eight bytes."""
TAG = bytes((FIELD << 3 & 0x7F | FIXED64 | 0x80, FIELD >> 4))


class Waiting(NamedTuple):
    stream: Stream
    request: ExecRequest
    answer: asyncio.Future[ExecRequest]


class Relay:
    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, Waiting] = {}

    async def ask(self, stream: Stream, request: ExecRequest, seconds: float) -> ExecRequest:
        """What a stream's peer answers."""
        number = next(self._numbers)
        answer: asyncio.Future[ExecRequest] = asyncio.get_running_loop().create_future()
        self._waiting[number] = Waiting(stream, request, answer)
        try:
            stream.outbox.post(_numbered(request, number))
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise Refusal.EXEC_TIMEOUT() from None
        finally:
            del self._waiting[number]

    def answered(self, stream: Stream, reply: ExecRequest) -> None:
        """What came back by a stream. What nobody waits for any more is passed over."""
        number = _number(reply)
        reply.DiscardUnknownFields()
        for asked, waiting in self._waiting.items():
            if waiting.stream is not stream or waiting.answer.done():
                continue
            if asked == number or (not number and _matches(waiting.request, reply)):
                if reply.err:
                    waiting.answer.set_exception(Refusal.EXEC_FAILED(text=reply.err))
                else:
                    waiting.answer.set_result(reply)
                return

    def over(self, stream: Stream) -> None:
        """A stream has ended: nobody answers by it."""
        for waiting in self._waiting.values():
            if waiting.stream is stream and not waiting.answer.done():
                waiting.answer.set_exception(Refusal.EXEC_NOBODY())


def _matches(request: ExecRequest, reply: ExecRequest) -> bool:
    return request.offer == reply.offer and request.app_inst_key == reply.app_inst_key


def _numbered(request: ExecRequest, number: int) -> ExecRequest:
    written = request.SerializeToString() + TAG + number.to_bytes(8, "little")
    return ExecRequest.FromString(written)


def _number(reply: ExecRequest) -> int:
    """The number of the request that this answers. 0: it does not say."""
    unknown: Any = UnknownFieldSet(reply)
    for field in unknown:
        if (field.field_number, field.wire_type) == (FIELD, FIXED64):
            return int(field.data)
    return 0
