"""Work that goes on beside everything else for as long as a process lives, and is not to end.

Such a task is awaited by nobody, so one that ends by an exception would be missing without a word
until the process stops. Here it is logged, begun again after a pause that doubles each time, and
measured."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0
"""How long a task that ended waits before it begins again: at first, and at most."""

log = structlog.get_logger()

Work = Callable[[], Awaitable[None]]
Measure = Callable[[str, bool], None]
"""Is told which task runs, and which waits to be begun again."""


class Supervisor:
    def __init__(
        self,
        measure: Measure = lambda *_: None,
        *,
        first: float = FIRST_SECONDS,
        most: float = MOST_SECONDS,
    ) -> None:
        self.measure = measure
        self._first, self._most = first, most
        self._tasks: list[asyncio.Task[None]] = []

    def keep(self, name: str, work: Work) -> None:
        """Have it go on until `close`."""
        self._tasks.append(asyncio.create_task(self._kept(name, work), name=name))

    async def close(self) -> None:
        """Stop all, and wait until they have."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    async def _kept(self, name: str, work: Work) -> None:
        pause, clock = self._first, asyncio.get_running_loop()
        while True:
            began = clock.time()
            self.measure(name, True)
            try:
                await work()
                log.error("a task that should go on has ended", task=name)
            except Exception:
                log.exception("a task that should go on has failed", task=name)
            self.measure(name, False)
            if clock.time() - began > self._most:
                pause = self._first
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._most)
