"""Whether mons are awake, asked without a key: whoever connects is greeted at once.

A manager shows a frozen mon as well for 22 to 26 s. The kernel of such a mon still takes
connections, and nobody says anything on them. Only of a mon that has greeted us before is that
believed: in some networks something else takes connections to every address."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

CONNECT_SECONDS = 1.0
GREETING_SECONDS = 2.0
FORGET_SECONDS = 60.0
"""For so long a mon that cannot be reached from here is not tried again. That says nothing of it:
mons may be in a network of their own."""

BANNER = b"ceph"
LONGEST = 512


class Greetings:
    """The mons of one cluster."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._awake: set[str] = set()
        """Addresses where somebody has greeted us."""

    async def silent(self, mons: Mapping[str, str]) -> frozenset[str]:
        """Which of these take a connection and say nothing; addresses by name, as
        `10.0.0.7:6789/0`."""
        names = list(mons)
        answers = await asyncio.gather(*(self._greeted(mons[name]) for name in names))
        return frozenset(name for name, said in zip(names, answers, strict=True) if said is False)

    async def _greeted(self, address: str) -> bool | None:
        """None: it cannot be told from here."""
        loop = asyncio.get_running_loop()
        host, _, port = address.partition("/")[0].rpartition(":")
        if not port.isdigit() or self._until.get(address, 0.0) > loop.time():
            return None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError):
            self._until[address] = loop.time() + FORGET_SECONDS
            return None
        awake = await self._listened(reader, writer)
        if awake:
            self._awake.add(address)
        elif address not in self._awake:
            self._until[address] = loop.time() + FORGET_SECONDS
            return None
        return awake

    async def _listened(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool | None:
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                said = await reader.read(LONGEST)
        except TimeoutError:
            return False
        except OSError:
            return None
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return True if said.startswith(BANNER) else None
