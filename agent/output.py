"""What a command says beside an app: read to its end, and kept as far as anybody can use it."""

import asyncio

MOST_BYTES = 2**20
"""So much of each of its outputs is kept. More would not fit into what is told of it."""

READ_BYTES = 64 * 1024


class Kept:
    """The beginning of an output."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._bytes = bytearray()
        self.dropped = 0

    def take(self, raw: bytes) -> None:
        fits = self._most - len(self._bytes)
        self._bytes += raw[:fits]
        self.dropped += max(len(raw) - fits, 0)

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)


async def read(stream: asyncio.StreamReader) -> Kept:
    """All of it, so that whoever writes never waits."""
    kept = Kept()
    while raw := await stream.read(READ_BYTES):
        kept.take(raw)
    return kept


def noted(out: Kept, err: Kept) -> tuple[bytes, bytes]:
    """Both, with a last line of standard error that says what is missing."""
    missing = {"stdout": out.dropped, "stderr": err.dropped}
    notes = "".join(
        f"\nwindlass: {count} more bytes of {name} were dropped\n"
        for name, count in missing.items()
        if count
    )
    return bytes(out), bytes(err) + notes.encode()
