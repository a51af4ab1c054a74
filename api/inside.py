"""The connections that the front makes to gRPC, one for each caller."""

import asyncio
from typing import Protocol, cast

from api.callers import CALLERS, Caller


class Outward(Caller, Protocol):
    """The caller's connection, as far as ours needs it."""

    def answer(self, data: bytes) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...


class Inside(asyncio.Protocol):
    """Our connection to gRPC, for one caller."""

    def __init__(self, outside: Outward, name: str) -> None:
        self._outside = outside
        self._name = name
        self._transport: asyncio.Transport | None = None
        CALLERS[name] = outside

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._outside.answer(data)

    def pause_writing(self) -> None:
        self._outside.pause()

    def resume_writing(self) -> None:
        self._outside.resume()

    def connection_lost(self, _: Exception | None) -> None:
        CALLERS.pop(self._name, None)
        self._outside.close()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
