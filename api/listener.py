"""A socket that listens: connections are counted when they are accepted, before TLS."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

import structlog

from api.connections import Connection, ConnectionTable

REST_SECONDS = 0.1
"""Between two tries to accept, where that fails."""

log = structlog.get_logger()


class Accepted(Connection, Protocol):
    """What serves one connection; an asyncio protocol besides."""

    beginning: asyncio.Task[None] | None
    """What makes its transport. To be cancelled by `displace` where there is none yet."""


class Listener:
    """Accepts until it is closed. Each connection is served by what `create` makes of its peer."""

    def __init__(
        self,
        listening: socket.socket,
        table: ConnectionTable,
        create: Callable[[object], Accepted],
        encrypted: ssl.SSLContext | None,
    ) -> None:
        listening.setblocking(False)
        self._table = table
        self._create = create
        self._encrypted = encrypted
        self._beginning: set[asyncio.Task[None]] = set()
        self._listening = listening
        self._accepting = asyncio.create_task(self._accept(listening))

    def close(self) -> None:
        """Accept no more. What is open goes on."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed; handshakes end with it."""
        tasks = [self._accepting, *self._beginning]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()  # one that was closed before it began has not done so

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, peername = await loop.sock_accept(listening)
                except OSError as error:  # such as no descriptor left
                    log.warning("a connection was not accepted", error=str(error))
                    await asyncio.sleep(REST_SECONDS)
                    continue
                connection = self._create(peername)
                if not self._table.admit(connection):
                    accepted.close()
                    continue
                _send_at_once(accepted)
                task = asyncio.create_task(self._begin(connection, accepted))
                connection.beginning = task
                self._beginning.add(task)
                task.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: Accepted, accepted: socket.socket) -> None:
        seconds = self._table.limits.handshake_seconds
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: cast(Any, connection),
                accepted,
                ssl=self._encrypted,
                ssl_handshake_timeout=None if self._encrypted is None else seconds,
            )
        except OSError:  # a failed handshake is one
            self._give_up(connection, accepted)
        except asyncio.CancelledError:
            self._give_up(connection, accepted)
            raise

    def _give_up(self, connection: Accepted, accepted: socket.socket) -> None:
        connection.displace()
        accepted.close()
        self._table.remove(connection)


def _send_at_once(accepted: socket.socket) -> None:
    """Answers in pieces do not wait for an ACK."""
    if accepted.family != socket.AF_UNIX:
        with suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
