"""Whether calls are let in at all: not before the database is one that we can work with; and
whether it takes writes."""

import asyncio
import time

from domain.errors import Unavailable
from store import schema
from store.engine import Database
from store.probe import Probe
from store.secrets import Secrets

PROBE_SECONDS = 10.0
"""Between two writes that only find out whether they can be done. After one that failed the next is
made as soon as somebody asks."""

WAIT_SECONDS, LONGEST_SECONDS = 1.0, 10.0
"""How long somebody who asks waits for such a write, and how long it may take."""


class Admission:
    def __init__(self, database: Database, vault: Secrets) -> None:
        self._database = database
        self._vault = vault
        self._admits = False
        self._probe = Probe(database)
        self._probed = -PROBE_SECONDS
        self._began = 0.0
        self._trying: asyncio.Task[None] | None = None

    async def admit(self) -> None:
        """Let calls in once the database has our tables and the key opens what lies in them:
        nothing is sealed before. Unavailable until then, Failed if it is the wrong key."""
        if self._admits:
            return
        if lacking := await self._tables():
            raise Unavailable(
                f"the database is {lacking}",
                reason="DATABASE_UNAVAILABLE",
                do="try again with the same request id once that is done",
            )
        await self._vault.verify()
        self._admits = True

    async def trouble(self) -> str:
        """Why the database cannot be used, in a few words. Empty: it can."""
        lacking = await self._tables()
        if not lacking:
            await self.admit()
            await self._write()
        return lacking

    async def close(self) -> None:
        """End what is still being tried."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait([self._trying])

    async def _write(self) -> None:
        """See that the database takes writes, unless that was seen a moment ago. One that takes
        long is waited for by the next who asks; by then it may be too long."""
        if self._trying is None:
            if time.monotonic() - self._probed < PROBE_SECONDS:
                return
            self._began = time.monotonic()
            self._trying = asyncio.create_task(self._probe.write())
        done, _ = await asyncio.wait([self._trying], timeout=WAIT_SECONDS)
        if done:
            self._trying = None
            await done.pop()
            self._probed = time.monotonic()
        elif (seconds := time.monotonic() - self._began) > LONGEST_SECONDS:
            raise Unavailable(
                f"the database has taken {seconds:.0f} s for a write that is not done yet",
                reason="DATABASE_UNAVAILABLE",
                do="look at the database, at its disk and at what holds locks there",
            )

    async def _tables(self) -> str:
        return await schema.lacking(self._database)
