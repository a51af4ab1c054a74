"""HTTP/2 as a hostile client writes it: frames by hand, and nothing that a library would refuse."""

import asyncio
from contextlib import suppress

from api import http2

LOGIN = "/services.auth.AuthService/Login"
WATCH = "/grpc.health.v1.Health/Watch"
EMPTY = b"\0\0\0\0\0"
WINDOW, FIRST_WINDOW = 4, 65_535
"""The setting for the windows of streams, and what they are without it."""


def frame(kind: int, stream: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def headers(path: str) -> bytes:
    """The headers of a call, each written out."""
    said = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "x",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b""
    for name, value in said.items():
        block += b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return block


def call(stream: int, path: str, flags: int = 0) -> bytes:
    return frame(http2.HEADERS, stream, headers(path), http2.END_HEADERS | flags)


def reset(stream: int) -> bytes:
    return frame(http2.RST_STREAM, stream, (8).to_bytes(4, "big"))


class Client:
    """One connection. What the server answers is read, as far as windows are in it, and dropped."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._window = FIRST_WINDOW
        self._first = FIRST_WINDOW
        self._streams: dict[int, int] = {}
        self._more = asyncio.Event()
        self.goaway = b""
        self.closed = asyncio.Event()
        self.answered = 0
        """Streams that the server has ended."""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, address: str, local: str = "127.0.0.1") -> "Client":
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(local, 0))
        writer.write(http2.PREFACE + frame(http2.SETTINGS))
        return cls(reader, writer)

    async def send(self, data: bytes) -> bool:
        """Whether the server is still there."""
        if self.closed.is_set():
            return False
        with suppress(OSError):
            self.writer.write(data)
            await self.writer.drain()
            return True
        return False

    async def pour(self, stream: int, data: bytes) -> bool:
        """Send data on a stream, as fast as the server takes it."""
        self._streams.setdefault(stream, self._first)
        while data and not self.closed.is_set():
            there = min(len(data), self._window, self._streams[stream], 16_000)
            if there <= 0:
                self._more.clear()
                await self._more.wait()
                continue
            self._window -= there
            self._streams[stream] -= there
            piece, data = data[:there], data[there:]
            if not await self.send(frame(http2.DATA, stream, piece)):
                return False
        return not self.closed.is_set()

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def _read(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await self._reader.readexactly(http2.HEAD_BYTES)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                stream = int.from_bytes(head[5:], "big")
                await self._frame(head[3], head[4], stream, payload)
        self.closed.set()
        self._more.set()

    async def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == http2.SETTINGS and not flags & http2.ACK:
            for at in range(0, len(payload), 6):
                if int.from_bytes(payload[at : at + 2], "big") == WINDOW:
                    value = int.from_bytes(payload[at + 2 : at + 6], "big")
                    for each in self._streams:
                        self._streams[each] += value - self._first
                    self._first = value
            await self.send(frame(http2.SETTINGS, flags=http2.ACK))
        elif kind == http2.PING and not flags & http2.ACK:
            await self.send(frame(http2.PING, 0, payload, http2.ACK))
        elif kind == http2.WINDOW_UPDATE and stream:
            self._streams[stream] = self._streams.get(stream, self._first) + int.from_bytes(
                payload, "big"
            )
        elif kind == http2.WINDOW_UPDATE:
            self._window += int.from_bytes(payload, "big")
        elif kind == http2.GOAWAY:
            self.goaway = payload[8:]
        elif kind == http2.RST_STREAM or flags & http2.END_STREAM:
            self.answered += 1
        self._more.set()
