"""Accepts gRPC connections before gRPC does, and passes on what stays within limits.

gRPC's own server knows neither who calls before a call is there, nor how much an unfinished message
takes, and a caller that resets its calls fast enough disturbs all others. So callers connect here.
Bytes go on to gRPC, which listens on a socket in a folder that nobody else may enter; heads of
frames are read on the way (`api/traffic.py`), and a connection that asks for too much is closed
with GOAWAY, which no other one notices. TLS ends here."""

import asyncio
import os
import socket
import ssl
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from api import http2
from api.connections import ConnectionLimits, ConnectionTable, Stage
from api.inside import Inside
from api.listener import Listener
from api.origin import Network
from api.traffic import Excess, MessageBudget, Traffic, TrafficLimits

CONNECTING = 64
"""Connections to gRPC that are being made at once."""
WAITING_BYTES = 64 * 1024
"""What a caller may have sent before gRPC has its connection."""
SLICE_BYTES, SLICE_CALLS, OPEN_CALLS = 4096, 10, 64
"""How much is passed on at once for a caller who is not known. A connection that begins more calls
with it than so many, and has more open than so many, waits for its turn before the next."""
TURN_SECONDS = 0.04
"""Between two turns of all connections: a thousand calls a second for those who flood."""
RESETS = 50
"""Calls that a connection may cancel without waiting, before anybody is known there."""
CLOSING_SECONDS = 5.0
"""What a caller gets to take the last bytes."""


class Front:
    def __init__(
        self,
        connections: ConnectionLimits | None = None,
        traffic: TrafficLimits | None = None,
        proxies: Sequence[Network] = (),
    ) -> None:
        self._folder = TemporaryDirectory(prefix="windlass-")  # which only we may enter
        self._path = Path(self._folder.name)
        self._named = 0
        self._turn = 0.0
        self._listening: list[Listener] = []
        self.table = ConnectionTable(connections or ConnectionLimits(), proxies)
        self.traffic = traffic or TrafficLimits()
        self.budget = MessageBudget(self.traffic)
        self._connecting = asyncio.Semaphore(CONNECTING)
        self.tasks: set[asyncio.Task[None]] = set()
        """What connections have under way."""
        self._gone = asyncio.Event()

    @property
    def address(self) -> str:
        """Where gRPC is to listen, as it spells that."""
        return f"unix:{self._path / 'grpc'}"

    def listen(self, listening: socket.socket, encrypted: ssl.SSLContext | None) -> None:
        """Take in callers at a socket that listens."""
        listener = Listener(listening, self.table, lambda peer: Outside(self, peer), encrypted)
        self._listening.append(listener)

    def close(self) -> None:
        """Take nobody in any more. What is open goes on."""
        for listener in self._listening:
            listener.close()

    async def stop(self) -> None:
        """End what is still open."""
        self.close()
        for listener in self._listening:
            await listener.wait_closed()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for connection in self.table.open:
            cast(Outside, connection).close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                while self.table.count:
                    self._gone.clear()
                    await self._gone.wait()
        for connection in self.table.open:
            connection.displace()
        await asyncio.sleep(0)
        self._folder.cleanup()

    def turn(self) -> float:
        """When the next turn of somebody who begins many calls is, and it is theirs."""
        self._turn = max(asyncio.get_running_loop().time(), self._turn) + TURN_SECONDS
        return self._turn

    def forget(self, connection: "Outside") -> None:
        """It is closed on both sides."""
        self.table.remove(connection)
        self._gone.set()

    async def connect(self, outside: "Outside") -> "Inside":
        """A connection to gRPC, under a name that is used once."""
        self._named += 1
        name = self._path / f"caller-{self._named}"
        named = socket.socket(socket.AF_UNIX)
        try:
            named.setblocking(False)
            named.bind(str(name))
            loop = asyncio.get_running_loop()
            async with self._connecting:
                await loop.sock_connect(named, str(self._path / "grpc"))
                _, inside = await loop.create_unix_connection(
                    lambda: Inside(outside, f"unix:{name}"), sock=named
                )
        except BaseException:
            named.close()
            raise
        finally:
            with suppress(OSError):
                os.unlink(name)
        return inside


class Outside(asyncio.Protocol):
    """A caller's connection."""

    def __init__(self, front: Front, peername: object) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._inside: Inside | None = None
        self._waiting = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._traffic = Traffic(front.traffic)
        self._later = b""
        self._waits_until = 0.0
        self._continuing: asyncio.TimerHandle | None = None
        self._resets = 0
        self._is_lost = self._is_opening = False
        self.beginning: asyncio.Task[None] | None = None
        self.place, self.is_trusted = front.table.locate(peername)
        self.stage = Stage.NEW
        self.address = _spelled(peername)
        self.certificate = b""
        self.held = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_lost:
            self._transport.abort()
            return
        self.certificate = _certificate(transport.get_extra_info("ssl_object"))
        seconds = self._front.table.limits.handshake_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._be_late)

    def data_received(self, data: bytes) -> None:
        if self._inside is not None:
            self._take(data)
            return
        self._waiting += data
        if not http2.PREFACE.startswith(self._waiting[: len(http2.PREFACE)]):
            self.displace()
        elif len(self._waiting) >= len(http2.PREFACE) and not self._is_opening:
            self._is_opening = True
            self._pause()
            self._begin(self._open())
        elif len(self._waiting) > WAITING_BYTES:
            self._pause()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._inside is not None:
            self._inside.pause()

    def resume_writing(self) -> None:
        if self._inside is not None:
            self._inside.resume()

    def connection_lost(self, _: Exception | None) -> None:
        self._is_lost = True
        self._stop_timer()
        if self._continuing is not None:
            self._continuing.cancel()
        self._front.budget.add(self, -self.held)
        if self._inside is not None:
            self._inside.close()
        self._front.forget(self)

    # What others ask of it.

    @property
    def is_signed_in(self) -> bool:
        return self.stage is Stage.SIGNED_IN

    def sign_in(self) -> None:
        if self.stage is not Stage.SIGNED_IN:
            self._front.table.move(self, Stage.SIGNED_IN)

    def refuse(self) -> None:
        seconds = self._front.table.penalise(self)
        self._waits_until = asyncio.get_running_loop().time() + seconds

    def displace(self) -> None:
        self._is_lost = True
        if self._transport is not None:
            self._transport.abort()
        elif self.beginning is not None:
            self.beginning.cancel()
        if self._inside is not None:
            self._inside.close()

    def exceed(self, why: str) -> None:
        """Close it with GOAWAY. What it holds is let go at once."""
        if self._is_lost or self._transport is None:
            return
        self._front.budget.add(self, -self.held)
        if self._traffic.may_interrupt and not self._transport.is_closing():
            self._transport.write(http2.goaway(self._traffic.last, why))
        if self._inside is not None:
            self._inside.close()
        self.close()

    def close(self) -> None:
        """Close it once all was sent that there is, or after a while."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.close()
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(CLOSING_SECONDS, self.displace)

    def answer(self, data: bytes) -> None:
        """Send what gRPC answers."""
        if self._is_lost or self._transport is None or self._transport.is_closing():
            return
        try:
            freed = self._traffic.answer(data)
        except Excess as excess:
            self.exceed(str(excess))
            return
        self._transport.write(data)
        if freed:
            self._front.budget.add(self, -min(freed, self.held))
        if self.stage is Stage.BUSY and not self._traffic.open:
            self._front.table.move(self, Stage.IDLE)

    def pause(self) -> None:
        self._pause()

    def resume(self) -> None:
        if self._later:  # it goes on by itself
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._front.tasks.add(task)
        task.add_done_callback(self._front.tasks.discard)

    # How it works.

    def _take(self, data: bytes) -> None:
        """Pass on what has come, little by little if nobody is known here."""
        if self._later:
            self._later += data
            return
        if self.is_signed_in or self.is_trusted:
            self._pass_on(data)
            return
        loop = asyncio.get_running_loop()
        at = 0
        while at < len(data) and loop.time() >= self._waits_until and not self._is_ending:
            before = self._traffic.last
            self._pass_on(data[at : at + SLICE_BYTES])
            at += SLICE_BYTES
            begun = (self._traffic.last - before) // 2  # every other number is a caller's
            if begun > SLICE_CALLS and self._traffic.open > OPEN_CALLS:
                self._waits_until = max(self._waits_until, self._front.turn())
        if at < len(data) and not self._is_ending:
            self._later = data[at:]
            self._pause()
            self._continuing = loop.call_at(self._waits_until, self._continue)

    @property
    def _is_ending(self) -> bool:
        return self._is_lost or self._inside is None or self._inside.is_closing

    def _continue(self) -> None:
        self._continuing = None
        data, self._later = self._later, b""
        self._take(data)
        self.resume()

    def _pass_on(self, data: bytes) -> None:
        if self._inside is None or self._is_ending:
            return
        before = self._traffic.last
        try:
            change = self._traffic.ask(data)
            while self._traffic.reset:
                self._traffic.reset -= 1
                self._resets += 1
                if self._resets > RESETS and not self.is_signed_in:
                    self.refuse()
                if not self._front.table.may_reset(self):
                    raise Excess("too many resets")
        except Excess as excess:
            self.exceed(str(excess))
            return
        if self._traffic.last != before and self.stage is not Stage.SIGNED_IN:
            self._stop_timer()
            self._front.table.move(self, Stage.BUSY)
        self._inside.write(data)
        self._front.budget.add(self, change)

    async def _open(self) -> None:
        try:
            inside = await self._front.connect(self)
        except OSError:
            self.displace()
            return
        if self._is_lost or self._transport is None or self._transport.is_closing():
            inside.close()
            return
        self._inside = inside
        waiting, self._waiting = bytes(self._waiting), bytearray()
        inside.write(http2.PREFACE)
        if rest := waiting[len(http2.PREFACE) :]:
            self._take(rest)
        self.resume()

    def _be_late(self) -> None:
        if self.stage is Stage.NEW:
            self.displace()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()


def _spelled(peername: object) -> str:
    """An address as gRPC writes it."""
    if not isinstance(peername, tuple):
        return "unix:"
    host, port = peername[:2]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _certificate(encrypted: ssl.SSLObject | None) -> bytes:
    """The certificate that was shown and verified, in DER."""
    return (encrypted.getpeercert(binary_form=True) if encrypted else None) or b""
