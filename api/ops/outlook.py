"""How far operations have come and how long they will still take.

What an operation was accepted to do never changes, and what steps usually take changes slowly, so
both are remembered for a while. What has happened is read."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

from domain.operation import ACTIVE, Operation, OperationId, Stage, Step
from domain.outline import Leg, progress, told
from store.gather import Gather
from store.operations import Operations

LEARNT_SECONDS = 30.0

OUTLINES = 64
STANDINGS = 1000
"""Operations of which something is kept in memory; the one unasked for longest goes first."""

Kept = TypeVar("Kept")


class Standing(NamedTuple):
    """An operation as it stands, and what people want to know about that."""

    operation: Operation
    percent: int
    eta: timedelta | None
    steps: Sequence[Step] = ()


class Outlook:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._outlines: dict[OperationId, tuple[Leg, ...]] = {}
        self._last: dict[OperationId, Standing] = {}
        self._learnt: dict[str, float] = {}
        self._learn_again = 0.0
        self._gather = Gather[OperationId, Standing](self._read)

    async def get(self, operation: OperationId) -> Standing:
        """Where an operation stands now, with its steps."""
        return await self._gather.ask(operation)

    async def since(self, operation: OperationId, event: int) -> Standing:
        """Where an operation stands, no older than its event of that number, without its steps.
        Those who follow the same operation share one reading."""
        last = self._last.get(operation)
        if last is None or last.operation.last_event < event:
            last = await self._gather.ask(operation)
        return last._replace(steps=())

    async def of(self, operation: Operation) -> Standing:
        """Where an operation that was just read stands, without its steps."""
        if operation.stage is Stage.SUCCEEDED:
            return Standing(operation, 100, None)
        last = self._last.get(operation.id)
        if last is not None and last.operation.ended is not None:
            return last
        return (await self._estimated(operation))._replace(steps=())

    async def foreseen(self, legs: tuple[Leg, ...]) -> timedelta | None:
        """How long steps that nobody has taken yet would take. None: nothing is learnt yet."""
        return progress(legs, [], await self._usually(), datetime.now(UTC)).eta

    async def _read(self, ids: Sequence[OperationId]) -> Sequence[Standing | Exception]:
        found: dict[OperationId, Standing | Exception] = {}
        for operation in ids:
            if operation not in found:
                try:
                    found[operation] = await self._estimated(await self._operations.get(operation))
                except Exception as error:  # told to those who asked for this one
                    found[operation] = error
        return [found[operation] for operation in ids]

    async def _estimated(self, operation: Operation) -> Standing:
        legs = await self._outline(operation)
        seen = await self._operations.steps(operation.id)
        now = operation.ended or datetime.now(UTC)
        so_far = progress(legs, seen, await self._usually(), now)
        last = self._last.get(operation.id)  # by other learnt durations, it may have been more
        percent = max(so_far.percent, last.percent if last else 0)
        if operation.stage is Stage.SUCCEEDED:
            percent = 100
        undoing = operation.stage not in ACTIVE or operation.cancel_requested
        held = operation.paused_by or operation.gate or operation.waiting_on
        unknown = undoing or held  # nobody knows for how long
        standing = Standing(operation, percent, None if unknown else so_far.eta)
        _keep(self._last, operation.id, standing, STANDINGS)
        return standing._replace(steps=told(legs, seen))

    async def _outline(self, operation: Operation) -> tuple[Leg, ...]:
        legs = self._outlines.get(operation.id)
        if legs is None:
            legs = await self._operations.foreseen(operation.id)
        _keep(self._outlines, operation.id, legs, OUTLINES)
        return legs

    async def _usually(self) -> dict[str, float]:
        """What steps usually take. Whoever finds it old reads it; others go on with the old."""
        now = asyncio.get_running_loop().time()
        if now >= self._learn_again:
            self._learn_again = now + LEARNT_SECONDS
            self._learnt = await self._operations.learnt()
        return self._learnt


def _keep(where: dict[OperationId, Kept], operation: OperationId, what: Kept, most: int) -> None:
    where.pop(operation, None)
    where[operation] = what
    if len(where) > most:
        del where[next(iter(where))]
