"""Strays: what was made on the platform and then forgotten, since whoever made it died before it
heard that nobody wants it any more.

What the platform carries is looked at first. Then the controller is asked to say when it has told
everything, which it does only if it speaks to nobody else for the cloudlet: so what was there
before, and is none of what is known after, nobody will ask for. It is removed; and whoever is to
make something that is called the same waits for that.

Before the first of these looks, the owners of what earlier releases made are recorded, which takes
all that the controller knows, too. Until then nothing is made, used or removed on the platform."""

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

ANSWER_SECONDS = 20.0
"""A controller that has not answered by then does not answer such questions: what it has said by
then counts as all."""

AGAIN_SECONDS = 10.0
"""Between two tries to record owners."""

log = structlog.get_logger()


class Strays:
    def __init__(
        self,
        platform: Platform,
        reports: Reports,
        known: Callable[[], Iterable[Instance]],
        present: Callable[[], Iterable[Instance]],
    ) -> None:
        """`known` is asked in the moment in which all has been told, `present` at any time."""
        self._platform, self._reports = platform, reports
        self._known, self._present = known, present
        self._adopting: asyncio.Task[None] | None = None
        self._adopted = asyncio.Event()
        if not platform.adopts:
            self._adopted.set()
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
        instances = list(self._known())
        if not self._adopted.is_set():
            self._begin_adopting(instances)
            return
        known = {self._platform.name(instance) for instance in instances}
        for name in sorted(set(carried) - known - self._removing.keys()):
            self._removing[name] = asyncio.create_task(self._remove(name))

    async def adopted(self) -> None:
        """Wait until the owners of what earlier releases made are recorded."""
        await self._adopted.wait()

    async def free(self, instance: Instance) -> None:
        """Wait until nothing is being removed that is called as an instance is, and it is known
        what it is called."""
        await self._adopted.wait()
        task = self._removing.get(self._platform.name(instance))
        if task is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        tasks = [*self._removing.values(), *filter(None, (self._looking, self._adopting))]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._looking, self._adopting, self._carried = None, None, None

    async def _look(self) -> None:
        while True:
            await self.may_ask.wait()
            if not self._adopted.is_set() and not await self._adopt():
                await asyncio.sleep(LOOK_SECONDS)  # an answer that is late answers nothing else
            if self._carried is None:  # what was asked before has been answered
                await self._compare()
            await asyncio.sleep(LOOK_SECONDS)

    async def _adopt(self) -> bool:
        """Ask the controller for all it knows, and wait until owners are recorded by that. Whether
        it answered."""
        self._carried = ()
        self._reports.ask()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._adopted.wait()
        except TimeoutError:
            answered = self._adopting is not None
            self._begin_adopting(list(self._present()))
            await self._adopted.wait()
        else:
            answered = True
        self._carried = None
        return answered

    def _begin_adopting(self, instances: Collection[Instance]) -> None:
        if self._adopting is None:
            self._adopting = asyncio.create_task(self._record_owners(instances))

    async def _record_owners(self, instances: Collection[Instance]) -> None:
        while True:
            try:
                await self._platform.adopt(instances)
            except DomainError as error:
                log.warning("owners not recorded", error=error.message)
            except Exception:
                log.exception("recording owners failed")
            else:
                self._adopted.set()
                return
            await asyncio.sleep(AGAIN_SECONDS)

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
