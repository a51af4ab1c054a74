"""A socket that somebody has opened for us, served by gRPC, which listens by address alone: each of
its connections is handed on to one in the file system that nobody else can reach."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

CONNECTIONS = 512
"""So many at once; whoever comes then waits to be accepted."""

PIECE = 64 * 1024


class Relay:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._folder = TemporaryDirectory(prefix="windlass-")  # which only we may enter
        self._path = str(Path(self._folder.name) / "grpc")
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where gRPC is to listen, as it spells that."""
        return f"unix:{self._path}"

    async def start(self) -> None:
        """Hand on what comes in, now that somebody listens there."""
        in_files = self._listening.family == socket.AF_UNIX
        serve = asyncio.start_unix_server if in_files else asyncio.start_server
        self._server = await serve(self._come, sock=self._listening)

    def close(self) -> None:
        """Take nobody in any more. What is open goes on."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """End what is still open."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._folder.cleanup()

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("connections are served by tasks")
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        try:
            async with self._room:
                await self._hand_on(reader, writer)
        finally:
            writer.close()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # one of them is gone, and so is the other
            behind, before = await asyncio.open_unix_connection(self._path)
            try:
                async with asyncio.TaskGroup() as both:
                    there = both.create_task(_poured(reader, before))
                    back = both.create_task(_poured(behind, writer))
                    await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
                    there.cancel()
                    back.cancel()
            finally:
                before.close()


async def _poured(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Everything, at the speed of whoever takes it."""
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
