"""Presence: that this process is alive, told to the others again and again."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from socket import gethostname

import structlog

from api.door import Admit
from domain.errors import DomainError
from store.controllers import Controllers

PER_LEASE = 3
"""How often it is told in one lease, so that a round may be lost."""

ANYWHERE = frozenset({"0.0.0.0", "[::]", ""})  # noqa: S104 (recognised, not bound)

log = structlog.get_logger()


class Presence:
    def __init__(
        self,
        controllers: Controllers,
        lease: timedelta,
        admit: Admit,
        lapsed: Callable[[], None] = lambda: None,
    ) -> None:
        """Whoever lets no calls in is not there for the others: `admit` is asked first. `lapsed`
        is told when the others have taken this process for dead."""
        self._controllers = controllers
        self._lease = lease
        self._admit = admit
        self._lapsed = lapsed
        self._kept = False
        self._entered = asyncio.Event()
        self._address = ""
        self.last_stream = 0
        """The highest number of a stream that a former life at this address held."""

    @property
    def address(self) -> str:
        """The address by which the others know this process. Empty: it has none yet."""
        return self._address

    async def entered(self) -> str:
        """The address by which the others know this process, once they do."""
        await self._entered.wait()
        return self._address

    async def stamp(self) -> str:
        """What this process writes on what it was told, once the others know it."""
        return f"{gethostname()}@{await self.entered()}"

    async def run(self, address: str) -> None:
        """Keep the lease until cancelled, then give it back. A round that fails is logged, and the
        next one tries again."""
        self._address = address
        pause = self._lease.total_seconds() / PER_LEASE
        try:
            while True:
                await self._keep(address)
                await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311 (jitter)
        finally:
            if self._kept:
                await self._leave(address)

    async def _keep(self, address: str) -> None:
        try:
            await self._admit()
            self._kept = True  # before it is: a round that is cut off may have been written
            if not self._entered.is_set():
                self.last_stream = await self._controllers.enter(address, self._lease)
                self._entered.set()
            elif not await self._controllers.keep(address, self._lease):
                log.warning("taken for dead", address=address)
                self._lapsed()
        except DomainError as error:
            log.warning("lease not kept", error=error.message)
        except Exception:
            log.exception("lease went wrong")

    async def _leave(self, address: str) -> None:
        try:
            await self._controllers.leave(address)
        except DomainError as error:  # then it runs out
            log.warning("lease not given back", error=error.message)
        except Exception:
            log.exception("lease went wrong")


def reached_at(said: str, listens: str) -> str:
    """The address at which others reach this process: what its operator said, or else where it
    listens, by the machine's name if that is everywhere."""
    host, _, port = listens.rpartition(":")
    return said or (f"{gethostname()}:{port}" if host in ANYWHERE else listens)
