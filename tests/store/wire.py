"""A wire to PostgreSQL that can be cut, or hang."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy import URL


class Wire:
    """Listens at a port of its own and carries bytes to the server's socket."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self.port = 0
        self._flows = asyncio.Event()
        self._flows.set()

    def hang(self) -> None:
        """Carry nothing any more, and end nothing: as a server that is stopped, or a network that
        loses everything."""
        self._flows.clear()

    def flow(self) -> None:
        """Carry again, what was held up first."""
        self._flows.set()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End every connection without a word, and refuse new ones."""
        if self._server is not None:
            self._server.close()
        for end in list(self._ends):
            end.transport.abort()
        if self._server is not None:
            await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._socket)
        self._ends |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, far_writer))
                both.create_task(self._pump(far_reader, writer))
        finally:
            self._ends -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def wire_to(server: URL) -> AsyncIterator[tuple[Wire, str]]:
    """A mended wire, and the URL of the server at its end."""
    directory = server.query["host"]
    wire = Wire(f"{directory}/.s.PGSQL.5432")
    await wire.mend()
    through = server.set(host="127.0.0.1", port=wire.port, query={"ssl": "disable"})
    try:
        yield wire, through.render_as_string(hide_password=False)
    finally:
        await wire.cut()
