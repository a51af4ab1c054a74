"""Strays: what was made on the platform and then forgotten, since whoever made it died before it
heard that nobody wants it any more.

What the platform carries is looked at first. Then the controller is asked to say when it has told
everything, which it does only if it speaks to nobody else for the cloudlet: so what was there
before, and is none of what is known after, nobody will ask for. It is removed; and whoever is to
make something that is called the same waits for that."""

import asyncio
from collections.abc import Callable, Collection, Iterable

import structlog

from agent.crm.names import Instance
from agent.crm.platform import Platform
from agent.crm.reports import Reports
from domain.errors import DomainError

LOOK_SECONDS = 600.0
"""Between two looks by one connection; the first is when it begins."""

AT_ONCE = 4

log = structlog.get_logger()


class Strays:
    def __init__(
        self, platform: Platform, reports: Reports, known: Callable[[], Iterable[Instance]]
    ) -> None:
        """`known` is asked in the moment in which all has been told."""
        self._platform, self._reports, self._known = platform, reports, known
        self._looking: asyncio.Task[None] | None = None
        self._removing: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._carried: Collection[str] | None = None
        self._answers = 0
        self.may_ask = asyncio.Event()

    def begin(self) -> None:
        """A connection begins. What the last one was asked is not answered any more."""
        if self._looking is not None:
            self._looking.cancel()
        self._carried, self._answers = None, 0
        self._reports.ask(False)
        self._looking = asyncio.create_task(self._look())

    def all_told(self) -> None:
        """The controller says so. The first time it does by itself, and has hardly begun."""
        self._answers += 1
        if self._carried is None or self._answers == 1:
            return
        carried, self._carried = self._carried, None
        known = {self._platform.name(instance) for instance in self._known()}
        for name in sorted(set(carried) - known - self._removing.keys()):
            self._removing[name] = asyncio.create_task(self._remove(name))

    async def free(self, instance: Instance) -> None:
        """Wait until nothing is being removed that is called as an instance is."""
        task = self._removing.get(self._platform.name(instance))
        if task is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        tasks = [*self._removing.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._looking, self._carried = None, None

    async def _look(self) -> None:
        while True:
            await self.may_ask.wait()
            if self._carried is None:  # what was asked before has been answered
                await self._compare()
            await asyncio.sleep(LOOK_SECONDS)

    async def _compare(self) -> None:
        try:
            self._carried = await self._platform.carries()
        except DomainError as error:
            log.warning("not known what the platform carries", error=error.message)
        else:
            self._reports.ask()

    async def _remove(self, name: str) -> None:
        log.warning("removed, since nobody knows of it", name=name)
        try:
            async with self._turn:
                await self._platform.remove(name)
        except DomainError as error:
            log.warning("left behind", name=name, error=error.message)
        except Exception:
            log.exception("removing went wrong", name=name)
        finally:
            del self._removing[name]
