"""The API's own sweep: it starts what was accepted and never started.

The scheduled sweep in Temporal does more, but may never have run: a new namespace, no worker yet, a
restored server. Both may launch the same operation; its workflow id lets one through."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import structlog

from api.launch import Launch
from api.meters import Meters
from domain.errors import DomainError
from store.operations import Operations

PERIOD_SECONDS = 10.0
OVERDUE_SECONDS = 10.0
"""How long something may be requested before we take its launch for lost."""

FORGET_SECONDS = 3600.0

log = structlog.get_logger()


class Sweep:
    def __init__(
        self,
        operations: Operations,
        launch: Launch,
        meters: Meters,
        admit: Callable[[], Awaitable[None]],
        *,
        window: timedelta,
        forget: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        """`admit` raises as long as nothing may be launched, since what is given to Temporal is
        sealed too; `forget` drops what else nobody asks for, and is called once in a while."""
        self._admit = admit
        self._operations = operations
        self._meters = meters
        self._launch = launch
        self._window = window
        self._forget = forget

    async def run(self) -> None:
        """Sweep until cancelled. A round that fails is logged, and the next one tries again."""
        forget_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PERIOD_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311 (jitter)
            try:
                await self._admit()
                await self.launch_overdue()
                self._meters.stands_still(await self._operations.backlog())
                if loop.time() >= forget_at:
                    await self._operations.forget_answers(self._window)
                    for forget in self._forget:
                        await forget()
                    forget_at = loop.time() + FORGET_SECONDS
            except DomainError as error:
                log.warning("sweep put off", error=error.message)
            except Exception:
                log.exception("sweep went wrong")

    async def launch_overdue(self, overdue_seconds: float = OVERDUE_SECONDS) -> None:
        """One round: launch what has been waiting for too long."""
        overdue = await self._operations.unlaunched(overdue_seconds)
        if overdue:
            log.info("launching late", operations=len(overdue), oldest=overdue[0].id)
        for operation in overdue:
            self._launch.soon(operation)
