"""How long things take at the site, and who turns its clock."""

import asyncio
import time
from typing import Protocol

from domain.frozen import Frozen


class Pace(Frozen):
    """Seconds on the site's clock. The defaults make a show of it; `INSTANT` makes none."""

    deploy: float = 4.0
    """From the order to Deployed."""
    boot: float = 0.6
    """From Deployed to an SSH server that answers: Deployed comes first, as in MAAS."""
    cloud_init: float = 0.8
    """From the SSH server to a finished first boot."""
    release: float = 1.0
    initialise: float = 3.0
    join: float = 1.5
    node_ready: float = 1.0
    """From a joined node to a Ready one."""
    upgrade: float = 1.5
    discovery: float = 3.0
    """For how long a host that joins asks an API that does not answer, or for a token that is not
    there. kubeadm does so for five minutes."""


INSTANT = Pace(
    deploy=0,
    boot=0,
    cloud_init=0,
    release=0,
    initialise=0,
    join=0,
    node_ready=0,
    upgrade=0,
    discovery=0,
)


class Clock(Protocol):
    """Where the site takes its time from."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Return once this much time has passed on this clock."""


class WallClock:
    """The time of day, for people."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class HandClock:
    """A clock that stands still until a test turns it."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._turned = asyncio.Condition()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        async with self._turned:
            await self._turned.wait_for(lambda: self._now >= until)

    async def turn(self, seconds: float) -> None:
        """Let time pass, and let everyone who waited for it run."""
        async with self._turned:
            self._now += seconds
            self._turned.notify_all()
        for _ in range(10):
            await asyncio.sleep(0)
