"""A way to a server from an address of our choice, since gRPC's clients choose none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def forwarded(address: str, local: str) -> AsyncIterator[str]:
    """An address that leads there."""
    host, _, port = address.rpartition(":")

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            made = asyncio.open_connection(host, int(port), local_addr=(local, 0))
            there, back = await made
            await asyncio.gather(pour(reader, back), pour(there, writer))
        except (OSError, asyncio.CancelledError):  # the end of the program cancels it
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
