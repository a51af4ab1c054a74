"""Presence: that this process is alive, told to the others again and again."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from socket import gethostname

import structlog

from api.door import Admit
from domain.errors import Conflict, DomainError, Unavailable
from store.claim import Claim
from store.clock import Reading
from store.controllers import Controllers

ENDING_SECONDS = 1.0
"""How long a process that was stopped may still hold its address."""

AGAIN_SECONDS = 0.05

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
        claims: Callable[[str], Claim] | None = None,
    ) -> None:
        """Whoever lets no calls in is not there for the others: `admit` is asked first. `lapsed`
        is told when the others have taken this process for dead. `claims` gives the claim by which
        no other process serves as an address; without it nobody checks that."""
        self._claims = claims
        self._claim: Claim | None = None
        self.refused = asyncio.Event()
        """Set once another process is found to be alive at the address of this one."""
        self._controllers = controllers
        self._lease = lease
        self._admit = admit
        self._lapsed = lapsed
        self._kept = False
        self._read: Reading | None = None
        self._patient_until = 0.0
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

    async def claim(self, address: str) -> str:
        """Have the address for this process alone, unless it has it already, or its port is not
        known yet. Conflict if another one is alive there. While the database does not answer
        nobody knows: then it is asked again with every round."""
        claimed = self._claim.address if self._claim is not None else ""
        if self._claims is None or address.endswith(":0") or address == claimed:
            return address
        self._claim = self._claims(address)
        asked_until = asyncio.get_running_loop().time() + ENDING_SECONDS
        with suppress(Unavailable):
            while not await self._claim.take():
                if asyncio.get_running_loop().time() > asked_until:
                    raise taken(address)
                await asyncio.sleep(AGAIN_SECONDS)
        return address

    async def until(self, told: asyncio.Event) -> None:
        """Until that event. Conflict if another process turns out to serve as the address."""
        waiting = [asyncio.create_task(each.wait()) for each in (told, self.refused)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        if self.refused.is_set():
            raise taken(self._address)

    async def close(self) -> None:
        """Let another process have the address."""
        if self._claim is not None:
            await self._claim.release()

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
            if self._claim is not None and not await self._claim.take():
                self._refuse(address)
                return
            self._kept = True  # before it is: a round that is cut off may have been written
            if not self._entered.is_set():
                self.last_stream = await self._controllers.enter(address, self._lease)
                self._entered.set()
            elif not await self._controllers.keep(
                address, self._lease, sweeps=await self._is_over()
            ):
                log.warning("taken for dead", address=address)
                self._lapsed()
        except DomainError as error:
            log.warning("lease not kept", error=error.message)
        except Exception:
            log.exception("lease went wrong")

    def _refuse(self, address: str) -> None:
        """Another process has come to this address while the database was away."""
        log.error("address served by another process", address=address)
        self.refused.set()

    async def _is_over(self) -> bool:
        """Whether a lease that is over was not renewed: since a lease this process reads a clock
        that was not set, so the others have had the time to renew theirs."""
        read, was = await self._controllers.clock(), self._read
        self._read = read
        if was is None or read.has_stepped(was):
            self._patient_until = read.after + self._lease.total_seconds()
        return read.after >= self._patient_until

    async def _leave(self, address: str) -> None:
        try:
            await self._controllers.leave(address)
        except DomainError as error:  # then it runs out
            log.warning("lease not given back", error=error.message)
        except Exception:
            log.exception("lease went wrong")


def taken(address: str) -> Conflict:
    return Conflict(
        f"another API process is alive that serves as {address} at this database",
        subject=address,
        reason="ADDRESS_CLAIMED",
        do="stop that one, or give this one another WINDLASS_EDGE__EXTERNAL_ADDRESS",
    )


def reached_at(said: str, listens: str) -> str:
    """The address at which others reach this process: what its operator said, or else where it
    listens, by the machine's name if that is everywhere."""
    host, _, port = listens.rpartition(":")
    return said or (f"{gethostname()}:{port}" if host in ANYWHERE else listens)
