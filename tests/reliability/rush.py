"""A rush on MAAS: far more slots than machines, all at once, while answers get lost.

Real rows, our real client, a simulated region on a socket. Two clients take turns, as if two
workers served the queue: whoever tries again is not who tried before."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from clients.maas import MaasMachines
from domain.cluster import ClusterOrder, PoolOrder
from domain.errors import DomainError, Unavailable
from domain.machine import Machine, Search, Sighting, Slot, SlotPhase
from domain.operation import Ask, Mark, OperationId, StepKey
from domain.releases import CATALOGUE
from sim.faults import Fault, Faults, How
from sim.maas.machine import Status
from store.clusters import Building, Clusters
from store.engine import Database
from store.marks import Marks
from store.operations import Operations
from store.secrets import Secrets
from tests.clients.maas.pool import client
from tests.sim.region import Region, some

BUILDING = Building(domain="rush.test")
MOST_TRIES = 200
"""So often in a row nobody's answers get lost."""


class Losing(Faults):
    """Of so many calls to MAAS the answer is lost, though all of them are done."""

    def __init__(self, share: float, draw: random.Random) -> None:
        super().__init__()
        self.calls = self.lost = 0
        self._share, self._draw = share, draw

    def meet(self, call: str) -> Fault | None:
        if not call.startswith("maas "):
            return super().meet(call)
        self.calls += 1
        if self._draw.random() >= self._share:
            return None
        self.lost += 1
        return Fault(where=call, how=How.HALF)


class Wanting(NamedTuple):
    """A slot that wants a machine, and the operation that wants it filled."""

    operation: OperationId
    slot: Slot


class Rush:
    """Everybody asks at once; whoever gets nothing waits until somebody gives theirs back."""

    def __init__(
        self, database: Database, vault: Secrets, region: Region, workers: tuple[MaasMachines, ...]
    ) -> None:
        self._clusters, self._operations = Clusters(database, vault), Operations(database)
        self._marks = Marks(database)
        self._region, self._workers = region, workers
        self.rounds = 0
        self.tries = 0

    async def order(self, clusters: int, slots_each: int) -> list[Wanting]:
        """Clusters with so many slots each, whose creates have been taken up."""
        wanting = []
        for number in range(clusters):
            order = ClusterOrder(
                name=f"c{number:02}",
                control_plane=PoolOrder(name="control-plane", count=1),
                pools=(PoolOrder(name="w", count=slots_each - 1),),
            )
            ask, release = Ask(method="create"), CATALOGUE.choose("")
            asked = await self._clusters.request_create(order, release, BUILDING, ask)
            await self._operations.begin(asked.id)
            plan = await self._operations.plan(asked.id)
            wanting += [Wanting(asked.id, slot) for slot in plan.slots]
        return wanting

    async def serve(self, wanting: list[Wanting]) -> list[str]:
        """Until all have had a machine once, and given it back. What was wrong on the way."""
        found: list[str] = []
        while wanting:
            self.rounds += 1
            got = await asyncio.gather(*map(self._take, wanting))
            holding = [one for one, machine in zip(wanting, got, strict=True) if machine]
            wanting = [one for one, machine in zip(wanting, got, strict=True) if not machine]
            machines = len(self._region.site.maas.machines.all)
            if len(holding) != min(machines, len(holding) + len(wanting)):
                found.append(f"round {self.rounds}: {len(holding)} have one of {machines} machines")
            found += await self._untrue()
            await asyncio.gather(*map(self._give_back, holding))
            found += await self._untrue()
        return found

    async def _take(self, one: Wanting) -> Machine | None:
        """A machine, or None if there is none: that is said, and leaves nothing behind."""
        step = StepKey(verb="machines.allocate", subject=one.slot.name, turn=self.rounds)
        for attempt in range(1, MOST_TRIES):
            self.tries += 1
            await self._mark(one, step, attempt, Sighting.BEGAN)
            try:
                machine = await self._worker(attempt).allocate(Search(slot=one.slot))
            except Unavailable as error:
                await self._mark(one, step, attempt, Sighting.STUMBLED, note=error.message)
                if error.reason == "NO_MACHINE_FREE":
                    return None
            else:
                await self._mark(one, step, attempt, Sighting.ENDED, learnt=machine)
                return machine
        raise AssertionError(f"{one.slot.name}: {MOST_TRIES} tries")

    async def _give_back(self, one: Wanting) -> None:
        step = StepKey(verb="machines.release", subject=one.slot.name)
        await self._mark(one, step, 1, Sighting.BEGAN)
        for attempt in range(1, MOST_TRIES):
            worker = self._worker(attempt)
            try:
                await worker.release(one.slot)
                while not await worker.released(one.slot):  # noqa: ASYNC110 - its MAAS tells nobody
                    await asyncio.sleep(0.01)
            except DomainError:
                continue
            await self._mark(one, step, 1, Sighting.ENDED)
            return
        raise AssertionError(f"{one.slot.name}: {MOST_TRIES} tries")

    def _worker(self, attempt: int) -> MaasMachines:
        return self._workers[attempt % len(self._workers)]

    async def _mark(
        self,
        one: Wanting,
        step: StepKey,
        attempt: int,
        sighting: Sighting,
        *,
        note: str = "",
        learnt: Machine | None = None,
    ) -> None:
        await self._marks.make(
            Mark(
                operation=one.operation,
                step=step,
                attempt=attempt,
                sighting=sighting,
                note=note,
                learnt=learnt,
            )
        )

    async def _untrue(self) -> list[str]:
        """Machines that two own, or nobody who knows of it."""
        machines = self._region.site.maas.machines.all.values()
        owned = {
            one.system_id: one.agent_name
            for one in machines
            if one.status not in (Status.READY, Status.RELEASING)
        }
        states = [
            state
            for cluster in await self._clusters.all()
            for state in (await self._clusters.nodes(cluster.name)).slots
        ]
        held = [state for state in states if state.phase is SlotPhase.ALLOCATED]
        rows = {state.system_id: state.slot.agent_name for state in held}
        return [
            *(f"{one} is in {n} rows" for one, n in _twice(state.system_id for state in held)),
            *(f"{name} owns {n} machines" for name, n in _twice(owned.values())),
            *(
                f"{one} is {owned.get(one)}'s in MAAS and {rows.get(one)}'s in the rows"
                for one in owned.keys() | rows.keys()
                if owned.get(one) != rows.get(one)
            ),
        ]


def _twice(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, count) for name, count in Counter(names).items() if count > 1]


@asynccontextmanager
async def rush(
    database: Database, vault: Secrets, *, machines: int, losing: Losing
) -> AsyncIterator[Rush]:
    """A region with so many machines, and two workers' clients of it."""
    region = Region(some(machines, tags=("metal",)), faults=losing)
    async with region.serve(), client(region) as here, client(region) as there:
        yield Rush(database, vault, region, (here, there))
