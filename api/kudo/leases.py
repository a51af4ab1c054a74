"""Leases of nodes: renewed by what they say, and taken away from who says nothing.

What has nothing new in it is written together, once a second: a thousand nodes are one statement. A
lease runs from when its node was heard, and is taken away when it ends and not with the next round.
A process that has just begun takes no lease away for a while, since while nobody served, nobody
could be heard. It is as patient when the clock by which leases are judged was set: when that clock
and this machine's monotonic time have come apart."""

import asyncio
import time
from datetime import datetime, timedelta

import structlog

from api.door import Admit
from api.launch import Launch
from domain.errors import DomainError
from domain.placement import Amounts
from store.clock import Reading
from store.nodes import Beat, Nodes
from workflows.run_instance import RunInstance

ROUND_SECONDS = 1.0
MOMENT_SECONDS = 0.01
"""What ends now has ended then."""

log = structlog.get_logger()


class Leases:
    def __init__(self, nodes: Nodes, launch: Launch, admit: Admit, lost: timedelta) -> None:
        self._nodes = nodes
        self._launch = launch
        self._admit = admit
        self._patience = lost.total_seconds()
        self._read: Reading | None = None
        self._beats: dict[str, Beat] = {}
        self._strange: set[str] = set()

    def beat(self, node: str, used: Amounts) -> bool:
        """Renew a node's lease soon. False: it has to be heard out first."""
        if node in self._strange:
            self._strange.discard(node)
            return False
        self._beats[node] = Beat(node=node, used=used, heard=time.monotonic())
        return True

    async def rouse(self, *nodes: str) -> None:
        """Have whoever has, or left, a copy on these nodes look at how they stand now."""
        for uid in await self._nodes.affected(nodes):
            self._launch.rouse_soon(RunInstance, f"i-{uid}", uid)

    async def run(self) -> None:
        """Keep the leases until cancelled. A round that fails is logged, and the next one tries
        again."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + self._patience
        while True:
            begun, pause = loop.time(), ROUND_SECONDS
            try:
                await self._admit()
                await self.renew()
                read, was = await self._nodes.clock(), self._read
                self._read = read
                if was is None or read.has_stepped(was):
                    await self._nodes.reset()
                    patient_until = max(patient_until, loop.time() + self._patience)
                elif loop.time() - begun > self._patience / 2:  # what was written is old by now
                    patient_until = loop.time() + self._patience
                elif loop.time() >= patient_until:
                    await self.expire(read.moment)
                pause = await self._until_next(patient_until - loop.time())
            except DomainError as error:
                log.warning("leases not kept", error=error.message)
                patient_until = loop.time() + self._patience
            except Exception:
                log.exception("leases went wrong")
            await asyncio.sleep(pause)
            if loop.time() - begun > pause + self._patience / 2:  # we stood still, and heard nobody
                patient_until = loop.time() + self._patience

    async def renew(self) -> None:
        """Write down who was heard of."""
        beats, self._beats = self._beats, {}
        self._strange |= await self._nodes.beat(list(beats.values()))

    async def expire(self, at: datetime | None = None) -> None:
        """Give up for lost whoever was silent for too long, by the clock as it stood then."""
        if lost := await self._nodes.expire(at):
            log.warning("nodes lost", nodes=lost)
            await self.rouse(*lost)

    async def _until_next(self, patient_seconds: float) -> float:
        """How long the next round has time: until a lease ends and may be taken away, if that is
        sooner."""
        if (left := await self._nodes.next_end()) is None:
            return ROUND_SECONDS
        seconds = max(left.total_seconds(), patient_seconds) + MOMENT_SECONDS
        return min(seconds, ROUND_SECONDS) if seconds > 0 else ROUND_SECONDS
