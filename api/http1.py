"""HTTP/1.1 connections that have to come along: a request's head, its body and the taking of an
answer have a time each, and there are only so many connections.

Whoever is slowest is closed first: a connection whose request is not whole gives way to a new one
(`api/connections.py`), so that probes get an answer however many connections are kept
open."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.connections import ConnectionTable, Stage
from api.listener import Listener


class HttpTimes(NamedTuple):
    """What an operator decides about slow callers, in seconds."""

    head: float = 10.0
    """For the request line and all headers."""
    body: float = 60.0
    """For all of a body."""
    idle: float = 5.0
    """Between two requests."""
    answer: float = 30.0
    """Without taking any byte of an answer."""


class Waiting(Enum):
    """What a connection waits for."""

    HEAD = "head"
    BODY = "body"
    HANDLER = "handler"
    REQUEST = "request"
    READER = "reader"


class Http1(H11Protocol):
    """A connection, as uvicorn serves it, with a time for all that it waits for."""

    def __init__(
        self, table: ConnectionTable, times: HttpTimes, peername: object, **uvicorns: Any
    ) -> None:
        super().__init__(**uvicorns)
        self._table = table
        self._times = times
        self._timer: asyncio.TimerHandle | None = None
        self._waits: Waiting | None = None
        self._is_displaced = False
        self.beginning: asyncio.Task[None] | None = None
        self.place, self.is_trusted = table.locate(peername)
        self.stage = Stage.NEW

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._is_displaced:
            transport.abort()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._table.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait()

    def displace(self) -> None:
        self._is_displaced = True
        if self.transport is not None:
            self.transport.abort()
        elif self.beginning is not None:
            self.beginning.cancel()

    def _wait(self) -> None:
        """Begin the time of what is waited for now, if that has changed."""
        waits = self._waiting()
        if waits is self._waits:
            return
        self._waits = waits
        self._stop_timer()
        seconds = {
            Waiting.HEAD: self._times.head,
            Waiting.BODY: self._times.body,
            Waiting.READER: self._times.answer,
            Waiting.REQUEST: self._times.idle,
        }.get(waits)
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self.displace)
        self._table.move(self, STAGES[waits])

    def _waiting(self) -> Waiting:
        if self.transport.is_closing() or self.flow.write_paused:
            return Waiting.READER
        if self.cycle is None:
            return Waiting.HEAD
        if not self.cycle.response_complete:
            return Waiting.BODY if self.cycle.more_body else Waiting.HANDLER
        # uvicorn's own timer runs while nothing of the next request has come
        return Waiting.HEAD if self.timeout_keep_alive_task is None else Waiting.REQUEST

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


STAGES = {
    Waiting.HEAD: Stage.NEW,
    Waiting.BODY: Stage.NEW,
    Waiting.READER: Stage.NEW,
    Waiting.REQUEST: Stage.IDLE,
    Waiting.HANDLER: Stage.BUSY,
}


class Http1Server(uvicorn.Server):
    """uvicorn over listeners that count, and without its signals: our process has its own."""

    def __init__(
        self,
        config: uvicorn.Config,
        table: ConnectionTable,
        times: HttpTimes,
        encrypted: ssl.SSLContext | None,
    ) -> None:
        super().__init__(config)
        self._table = table
        self._times = times
        self._encrypted = encrypted

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers: list[Any] = [
            Listener(each, self._table, self._create, self._encrypted) for each in sockets or ()
        ]
        self.started = True

    def _create(self, peername: object) -> Http1:
        return Http1(
            self._table,
            self._times,
            peername,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
