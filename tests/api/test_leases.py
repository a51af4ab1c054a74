"""Leases of nodes: they run from when a node was heard, and end when they end."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from itertools import chain, repeat

import pytest

from api.kudo import leases
from api.launch import Launch, client
from domain.node import NodePhase
from domain.placement import Amounts
from store.engine import Database
from store.nodes import Beat
from store.nodes import Leases as Terms
from store.rows import now
from tests.api.caller import NOBODY
from tests.store.desk import until
from tests.store.dock import Dock
from workflows.catalogue import CATALOGUE

LOST = timedelta(seconds=0.2)
SLACK = timedelta(seconds=1)
"""Between the wall clock and the one that leases are judged by."""


@pytest.fixture
async def dock(database: Database) -> AsyncIterator[Dock]:
    dock = Dock(database, Terms(lost=LOST))
    await dock.node("a")
    yield dock
    await dock.close()


@pytest.fixture
async def launch() -> AsyncIterator[Launch]:
    launch = Launch(await client(NOBODY, "default"), CATALOGUE, "workflows")
    yield launch
    await launch.close()


async def at_once() -> None:
    """Nothing has to be waited for."""


async def test_a_lease_runs_from_when_its_node_was_heard(dock: Dock, launch: Launch) -> None:
    kept = leases.Leases(dock.nodes, launch, at_once, LOST)
    before = now()
    assert kept.beat("a", Amounts(cpu=7))
    after = now()
    await asyncio.sleep(2 * SLACK.total_seconds())
    await kept.renew()
    view = await dock.nodes.get("a")
    assert before - SLACK <= view.heard <= after + SLACK
    assert view.used == Amounts(cpu=7)


async def test_a_lease_ends_when_it_ends_and_not_with_the_next_round(
    dock: Dock, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = leases.Leases(dock.nodes, launch, at_once, LOST)
    heard = time.monotonic() + 2 * LOST.total_seconds()
    await dock.nodes.beat([Beat(node="a", used=Amounts(), heard=heard)])
    left = await dock.nodes.next_end()
    assert left is not None
    assert left <= 3 * LOST + SLACK
    monkeypatch.setattr(leases, "ROUND_SECONDS", 3600.0)
    keeping = asyncio.create_task(kept.run())

    async def is_lost() -> bool:
        return (await dock.nodes.get("a")).phase is NodePhase.LOST

    await until(is_lost)
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping


async def test_who_was_heard_of_before_a_stall_is_not_lost_by_it(
    dock: Dock, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all that is written down is older than a lease, nobody can have been heard."""
    monkeypatch.setattr(leases, "ROUND_SECONDS", 0.01)
    phase: asyncio.Future[NodePhase] = asyncio.get_running_loop().create_future()

    async def stalls() -> None:
        if next(firsts):
            kept.beat("a", Amounts())
            begun = now()

            async def over() -> bool:
                return now() - begun > 2 * LOST

            await until(over)
        elif not phase.done():
            phase.set_result((await dock.nodes.get("a")).phase)

    firsts = chain([True], repeat(False))
    kept = leases.Leases(dock.nodes, launch, stalls, LOST)
    keeping = asyncio.create_task(kept.run())
    assert await phase is not NodePhase.LOST
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping
