"""The world in memory, served to workers in other processes, which may be killed at any moment.

One connection per call: a line with what is asked for, a line with what came of it. The world
lives with the test, so it outlives every worker and can be looked at. What shall go wrong is in
`faults`, where calls are named `<system> <verb>`, such as `maas allocate` or `hosts join`."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from domain.errors import KINDS, DomainError, Failed, Unavailable
from sim.faults import Faults, How
from sim.memory import MemoryApi, MemoryEndpoints, MemoryMachines, MemoryNodes
from sim.world import MemoryWorld

SYSTEMS: dict[str, Callable[[MemoryWorld], object]] = {
    "maas": MemoryMachines,
    "names": MemoryEndpoints,
    "hosts": MemoryNodes,
    "api": MemoryApi,
}
"""What answers in the world, by the word with which its calls begin."""

LONGEST_LINE = 1024 * 1024
STEP_SECONDS = 0.02
"""How long anything takes, so that there is something to interrupt."""

HANG_SECONDS = 0.4
"""How long who asks waits for an answer that does not come."""


class World:
    """A world that can be called from elsewhere and be told to go wrong."""

    def __init__(self, world: MemoryWorld) -> None:
        self.memory = world
        self.faults = Faults()

    @asynccontextmanager
    async def served(self, path: Path) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._answer, path, limit=LONGEST_LINE)
        try:
            yield
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # whoever asked has died
            asked = json.loads(await reader.readuntil())
            try:
                told: dict[str, Any] = {"answer": await self._do(**asked)}
            except DomainError as error:
                told = {"error": [error.kind, error.message, error.reason, error.facts]}
            writer.write(json.dumps(told).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _do(self, system: str, verb: str, subject: Any) -> Any:
        """Do as asked, unless a fault befalls the call."""
        call = f"{system} {verb}"
        await asyncio.sleep(STEP_SECONDS)
        fault = self.faults.meet(call)
        match fault and fault.how:
            case How.FAIL:
                raise Failed(f"{call} broke")
            case How.REFUSE:
                raise Unavailable(f"{call} was refused")
            case How.HANG:
                await asyncio.sleep(HANG_SECONDS)
                raise Unavailable(f"{call} was not answered")
        method = getattr(SYSTEMS[system](self.memory), verb)
        taken, given = _signature(method)
        subjects = [taken.validate_python(subject)] if taken else []
        answer = given.dump_python(await method(*subjects), mode="json")
        if fault is not None:
            raise Unavailable(f"{call} was done, and its answer lost")
        return answer


class FarPort:
    """A port of a world that is served elsewhere."""

    def __init__(self, path: Path, system: str) -> None:
        self._path, self._system = path, system
        near = SYSTEMS[system](MemoryWorld())
        for verb, method in inspect.getmembers(near, inspect.iscoroutinefunction):
            if not verb.startswith("_"):
                setattr(self, verb, partial(self._ask, verb, *_signature(method)))

    def __getattr__(self, verb: str) -> Callable[[Any], Awaitable[Any]]:
        raise AttributeError(f"{self._system} knows no {verb}")

    async def _ask(
        self, verb: str, taken: TypeAdapter[Any] | None, given: TypeAdapter[Any], *subjects: Any
    ) -> Any:
        subject = taken.dump_python(*subjects, mode="json") if taken else None
        asked = {"system": self._system, "verb": verb, "subject": subject}
        reader, writer = await asyncio.open_unix_connection(self._path, limit=LONGEST_LINE)
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            told = json.loads(await reader.readuntil())
        finally:
            writer.close()
        if "error" in told:
            kind, message, reason, facts = told["error"]
            raise KINDS[kind](message, reason=reason, facts=facts)
        return given.validate_python(told["answer"])


def _signature(method: Callable[..., Any]) -> tuple[TypeAdapter[Any] | None, TypeAdapter[Any]]:
    """What a method takes and what it gives, by its annotations. All take one thing or none."""
    hints = get_type_hints(method)
    given = TypeAdapter(hints.pop("return"))
    return next((TypeAdapter(taken) for taken in hints.values()), None), given
