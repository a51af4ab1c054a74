"""Clocks that are wrong, or are set: of a process, and of the database itself.

Each task here is a process with a wall clock of its own; monotonic time is nobody's to set."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from api.edge.presence import Presence
from api.kudo import leases
from api.launch import Launch, client
from domain.node import NodePhase
from domain.placement import Amounts
from store import rows
from store.clock import Clock, Reading
from store.controllers import Controllers
from store.engine import Database
from store.nodes import Leases as Terms
from store.nodes import Nodes
from tests.api.caller import NOBODY
from tests.store.desk import until
from tests.store.dock import Dock
from workflows.catalogue import CATALOGUE

LOST = timedelta(seconds=4)
LEASE = timedelta(seconds=15)
ROUND = 0.05
SHIFTS = [
    sign * shift
    for shift in (timedelta(seconds=20), timedelta(hours=1), timedelta(days=1))
    for sign in (1, -1)
]


class Wall:
    """How much the wall clock of a process is ahead."""

    ahead = timedelta(0)


WALL: ContextVar[Wall] = ContextVar("wall")


class Shifted(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        wall = WALL.get(None)
        return datetime.now(tz) + (wall.ahead if wall else timedelta(0))


class Settable(Clock):
    """The clock of a database whose machine's clock is set."""

    ahead = timedelta(0)

    async def read(self, session: AsyncSession) -> Reading:
        read = await super().read(session)
        return read._replace(moment=read.moment + self.ahead)

    async def moment(self, session: AsyncSession) -> datetime:
        return (await self.read(session)).moment


@pytest.fixture(autouse=True)
def walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "datetime", Shifted)
    monkeypatch.setattr(leases, "ROUND_SECONDS", ROUND)


@pytest.fixture
async def launch() -> AsyncIterator[Launch]:
    launch = Launch(await client(NOBODY, "default"), CATALOGUE, "workflows")
    yield launch
    await launch.close()


async def at_once() -> None:
    """Nothing has to be waited for."""


@asynccontextmanager
async def process(work: Coroutine[Any, Any, None]) -> AsyncIterator[Wall]:
    """Something that runs with a wall clock of its own."""
    wall = Wall()

    async def run() -> None:
        WALL.set(wall)
        await work

    running = asyncio.create_task(run())
    try:
        yield wall
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


class Site:
    """Two API processes that keep the leases of nodes, one of which hears of them."""

    def __init__(self, one: Database, two: Database, launch: Launch) -> None:
        self.nodes = Nodes(one, Terms(lost=LOST))
        self.heard = True
        self.rounds = [0, 0]
        self.kept = [
            leases.Leases(Nodes(each, Terms(lost=LOST)), launch, self._round(number), LOST)
            for number, each in enumerate((one, two))
        ]

    def _round(self, number: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def begun() -> None:
            self.rounds[number] += 1
            if number == 0 and self.heard:
                self.kept[0].beat("a", Amounts())

        return begun

    async def go_on(self, rounds: int = 4) -> None:
        wanted = [each + rounds for each in self.rounds]
        await until(lambda: all(a >= b for a, b in zip(self.rounds, wanted, strict=True)))

    async def phase(self) -> NodePhase:
        return (await self.nodes.get("a")).phase

    async def is_lost(self) -> bool:
        return await self.phase() is NodePhase.LOST


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Database]:
    other = Database(database_url)
    yield other
    await other.close()


@pytest.fixture
async def site(database: Database, other: Database, launch: Launch) -> Site:
    dock = Dock(database, Terms(lost=LOST))
    await dock.node("a")
    await dock.close()
    return Site(database, other, launch)


async def test_b11_no_node_is_lost_by_a_process_whose_clock_is_wrong_or_is_set(site: Site) -> None:
    """Neither by one that is apart from the others, nor by one whose clock moves while it runs;
    and a node that falls silent is lost all the same."""
    first, second = site.kept
    async with process(first.run()) as heard, process(second.run()) as judges:
        await asyncio.sleep(LOST.total_seconds())  # both have had their patience
        for shift in (*SHIFTS, timedelta(0)):
            for wall in (judges, heard):
                wall.ahead = shift
                await site.go_on()
                assert await site.phase() is NodePhase.RUNNING
        judges.ahead, site.heard = SHIFTS[-1], False
        await until(site.is_lost)


async def test_b11_no_node_is_lost_when_the_clock_of_the_database_is_set(
    site: Site, database: Database, other: Database
) -> None:
    """As it is after its machine stood still, too. What was heard before counts anew from then."""
    clocks = [Settable(is_sqlite=database.is_sqlite) for _ in range(2)]
    database.clock, other.clock = clocks
    first, second = site.kept
    async with process(first.run()), process(second.run()):
        await asyncio.sleep(LOST.total_seconds())
        for shift in (*SHIFTS, timedelta(0)):
            for clock in clocks:
                clock.ahead = shift
            await site.go_on()
            assert await site.phase() is NodePhase.RUNNING
        site.heard = False
        for clock in clocks:
            clock.ahead = SHIFTS[-1]
        await until(site.is_lost)


async def test_b11_processes_with_clocks_apart_do_not_take_each_other_for_dead(
    database: Database, other: Database
) -> None:
    clocks = [Settable(is_sqlite=database.is_sqlite) for _ in range(2)]
    database.clock, other.clock = clocks
    lapsed: list[str] = []

    def presence(at: Database, address: str) -> Presence:
        return Presence(Controllers(at), LEASE, at_once, lambda: lapsed.append(address))

    async def both() -> bool:
        return [*await Controllers(database).alive()] == ["a:1", "b:1"]

    one, two = presence(database, "a:1"), presence(other, "b:1")
    async with process(one.run("a:1")) as first, process(two.run("b:1")) as second:
        await until(both)
        for shift in SHIFTS:
            first.ahead, second.ahead = shift, -shift
            assert await both()
        await asyncio.sleep(LEASE.total_seconds() / 3)  # both have written with that
        assert await both()
        for shift in (SHIFTS[0], SHIFTS[-1], timedelta(0)):
            for clock in clocks:
                clock.ahead = shift
            await asyncio.sleep(LEASE.total_seconds() / 3)
            await until(both)
    assert lapsed == []


@pytest.mark.parametrize(
    ("moved", "passed", "stepped"),
    [(1.0, 1.0, False), (60.0, 60.0, False), (16.0, 1.0, True), (-20.0, 1.0, True)],
)
def test_b11_a_clock_that_moves_against_monotonic_time_was_set(
    moved: float, passed: float, *, stepped: bool
) -> None:
    begun = datetime.now().astimezone()
    was = Reading(begun, 10.0, 10.1)
    now = Reading(begun + timedelta(seconds=moved), 10.0 + passed, 10.1 + passed)
    assert now.has_stepped(was) is stepped
