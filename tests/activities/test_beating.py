"""Hands that take long say all the while that they are at it, so that nobody else is given their
work, and that a cancel finds them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from activities import instances, logbook, waiting, watching
from activities.errors import never_final, soon
from activities.instances import Instances
from activities.logbook import Logbook
from activities.waiting import beating
from activities.watching import Patrol, Rhythm, Watching
from domain.agents import Copy, Order, Output
from domain.errand import Errand
from domain.errors import DomainError, Failed, Unavailable
from domain.health import Tolerance
from domain.instance import Report
from domain.machine import Sighting
from domain.operation import Mark
from domain.ports import Node
from domain.seen import NodeSeen
from sim.memory import MemoryApi, MemoryEndpoints, MemoryMachines, MemoryNodes
from sim.world import MemoryWorld
from store import schema
from store.engine import Database
from store.secrets import Secrets
from store.watches import Watches
from tests.store.desk import Desk
from tests.store.dock import Dock
from tests.support.load import limit
from workflows.policies import STUBBORN

BEATS = 3
PATIENCE_SECONDS = 20.0


class Pulse:
    """Where beats arrive, and whoever works until some have."""

    def __init__(self) -> None:
        self.felt = asyncio.Event()
        self.beats = 0
        self.environment = ActivityEnvironment()
        self.environment.on_heartbeat = self._beat

    def _beat(self, *_: Any) -> None:
        self.beats += 1
        if self.beats >= BEATS:
            self.felt.set()

    async def until_felt(self, hand: Callable[[], Awaitable[Any]]) -> Any:
        """Carry out a hand that goes on until it has been heard of so often."""

        async def whole() -> Any:
            return await hand()

        async with limit(PATIENCE_SECONDS):
            return await self.environment.run(whole)


@pytest.fixture
def pulse(monkeypatch: pytest.MonkeyPatch) -> Pulse:
    for module in (waiting, instances, watching):
        monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    return Pulse()


@pytest.mark.parametrize("how", ["ends", "fails"])
async def test_it_beats_until_it_is_over(pulse: Pulse, how: str) -> None:
    async def hand() -> None:
        before = asyncio.all_tasks()
        try:
            async with beating():
                await pulse.felt.wait()
                if how == "fails":
                    raise LookupError
        except LookupError:
            assert how == "fails"
        await asyncio.wait(asyncio.all_tasks() - before)  # which ends, since nobody beats any more

    await pulse.until_felt(hand)
    assert pulse.beats >= BEATS


class Marks:
    """What the logbook wrote."""

    def __init__(self) -> None:
        self.made: list[Sighting] = []

    async def make(self, mark: Mark) -> None:
        self.made.append(mark.sighting)


class Slow(ActivityInboundInterceptor):
    """Any hand that takes long."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse

    async def execute_activity(self, _input: ExecuteActivityInput) -> Any:
        await self._pulse.felt.wait()


async def test_every_hand_of_an_operation_beats_while_it_works(pulse: Pulse) -> None:
    """Whatever it does: the logbook beats for it."""
    marks = Marks()
    hand = Logbook(marks).intercept_activity(Slow(pulse))
    pulse.environment.info = replace(
        pulse.environment.info, workflow_id=f"op-{uuid4()}", activity_id="machines.deploy cp-1"
    )
    given = ExecuteActivityInput(fn=pulse.until_felt, args=(), executor=None, headers={})
    await pulse.until_felt(lambda: hand.execute_activity(given))
    assert marks.made == [Sighting.BEGAN, Sighting.ENDED]


class DatabaseAway(Marks):
    """Lines that cannot be written for a while."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def make(self, mark: Mark) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("no answer", reason="DATABASE_UNAVAILABLE")
        await super().make(mark)


class Quick(ActivityInboundInterceptor):
    """Any hand that is done at once."""

    def __init__(self) -> None:
        self.carried_out = 0

    async def execute_activity(self, _input: ExecuteActivityInput) -> Any:
        self.carried_out += 1


async def test_a_hand_goes_on_as_soon_as_the_database_is_back(
    pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempt does not fail: the next might come ten minutes later."""
    monkeypatch.setattr(logbook, "WRITE_AGAIN_SECONDS", 0.05)
    marks, work = DatabaseAway(failures=5), Quick()
    hand = Logbook(marks).intercept_activity(work)
    pulse.environment.info = replace(
        pulse.environment.info,
        workflow_id=f"op-{uuid4()}",
        activity_id="machines.release cp-1",
        start_to_close_timeout=timedelta(minutes=45),
    )
    given = ExecuteActivityInput(fn=pulse.until_felt, args=(), executor=None, headers={})
    await pulse.until_felt(lambda: hand.execute_activity(given))
    assert work.carried_out == 1
    assert marks.made == [Sighting.BEGAN, Sighting.ENDED]
    assert pulse.beats, "Temporal hears of it while it waits"


@pytest.mark.parametrize(
    ("reason", "attempt", "most", "seconds"),
    [
        ("MAAS_DOWN", 1, 0, 1),
        ("MAAS_DOWN", 4, 0, 8),
        ("DATABASE_UNAVAILABLE", 12, 0, 30),
        ("MAAS_DOWN", 12, 30, None),  # tries that are counted are not used up sooner
        ("MAAS_FORBIDDEN", 12, 0, None),
    ],
)
def test_what_is_away_is_asked_again_soon_after_it_is_back(
    pulse: Pulse, reason: str, attempt: int, most: int, seconds: float | None
) -> None:
    policy = STUBBORN["retry_policy"]
    assert policy is not None
    info = replace(
        pulse.environment.info, attempt=attempt, retry_policy=replace(policy, maximum_attempts=most)
    )
    pause = soon(Unavailable("no answer", reason=reason), info)
    assert pause == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("no answer", reason="MAAS_DOWN"), "MAAS_DOWN"),
        (Failed("refused", reason="MAAS_FORBIDDEN"), "UNAVAILABLE"),
    ],
)
def test_what_is_never_final_keeps_the_reason_of_what_may_pass(
    error: DomainError, reason: str
) -> None:
    shown = never_final(error, "cp-1")
    assert (shown.message, shown.reason, shown.subject) == (error.message, reason, "cp-1")


class SlowAgents:
    """`domain.agents.Agents` that answer once a hand was heard of often enough."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self.asked: list[str] = []

    async def reach(self, node: str, address: str, certificate: str = "") -> None:
        """It is there."""

    async def run(self, order: Order) -> AsyncGenerator[Report, None]:
        await self._answer("run", order)
        nothing: tuple[Report, ...] = ()
        for report in nothing:
            yield report

    async def start(self, order: Order) -> None:
        await self._answer("start", order)

    async def stop(self, order: Order) -> bool:
        await self._answer("stop", order)
        return True

    async def destroy(self, order: Order) -> None:
        await self._answer("destroy", order)

    async def held(self, node: str, address: str) -> Sequence[Copy]:
        raise NotImplementedError

    async def drop(self, node: str, address: str, copy: Copy) -> None:
        raise NotImplementedError

    async def execute(
        self, node: str, address: str, instance: str, command: Sequence[str], seconds: float
    ) -> Output:
        raise NotImplementedError

    async def _answer(self, what: str, order: Order) -> None:
        assert order.node == "n1"
        self.asked.append(what)
        await self._pulse.felt.wait()


@pytest.fixture
async def errand(tmp_path: Path) -> AsyncIterator[tuple[Dock, Errand]]:
    """Something to be done on a node."""
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    dock = Dock(database)
    await dock.node("n1")
    yield dock, await dock.due(await dock.placed())
    await dock.close()
    await database.close()


@pytest.mark.parametrize(
    ("verb", "asked"),
    [
        (Instances.start, ["start"]),
        (Instances.stop, ["stop"]),
        (Instances.remove, ["destroy"]),
        (Instances.vacate, ["stop", "destroy"]),
    ],
)
async def test_every_hand_on_a_node_beats_while_its_agent_is_slow(
    pulse: Pulse, errand: tuple[Dock, Errand], verb: Any, asked: list[str]
) -> None:
    dock, due = errand
    agents = SlowAgents(pulse)
    hands = Instances(agents, dock.observing)
    await pulse.until_felt(lambda: verb(hands, due))
    assert agents.asked == asked


async def test_whoever_listens_to_a_node_beats_while_it_says_nothing(
    pulse: Pulse, errand: tuple[Dock, Errand]
) -> None:
    dock, due = errand
    agents = SlowAgents(pulse)
    hands = Instances(agents, dock.observing)
    with pytest.raises(Unavailable, match="hung up"):  # when it has been heard of often enough
        await pulse.until_felt(lambda: hands.attend(due))
    assert agents.asked == ["run"]


class SlowApi(MemoryApi):
    """An API that answers once a hand was heard of often enough."""

    def __init__(self, world: MemoryWorld, pulse: Pulse) -> None:
        super().__init__(world)
        self._pulse = pulse

    async def observe(self, node: Node) -> tuple[NodeSeen, ...]:
        assert node.endpoint
        await self._pulse.felt.wait()
        return ()


async def test_whoever_looks_at_a_cluster_beats_while_it_says_nothing(
    pulse: Pulse, database: Database, vault: Secrets
) -> None:
    desk, world = Desk(database, vault), MemoryWorld.of(0)
    await desk.standing()
    look = Watching(
        Watches(database),
        SlowApi(world, pulse),
        MemoryMachines(world),
        MemoryNodes(world),
        MemoryEndpoints(world),
        Rhythm(),
        Tolerance(),
    )
    patrol = Patrol(uid=(await desk.clusters.get("hello")).uid, rested=True)
    await pulse.until_felt(lambda: look.tour(patrol))
    await desk.close()
