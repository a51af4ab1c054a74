"""Leases of nodes: they run from when a node was heard, and end when they end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta

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
    await kept.renew()
    view = await dock.nodes.get("a")
    assert before <= view.heard <= after
    assert view.used == Amounts(cpu=7)


async def test_a_lease_ends_when_it_ends_and_not_with_the_next_round(
    dock: Dock, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = leases.Leases(dock.nodes, launch, at_once, LOST)
    heard = now() + 2 * LOST  # a process that has just begun is patient for a lease
    await dock.nodes.beat([Beat(node="a", used=Amounts(), heard=heard)])
    assert await dock.nodes.next_end() == heard + LOST
    monkeypatch.setattr(leases, "ROUND_SECONDS", 3600.0)
    keeping = asyncio.create_task(kept.run())

    async def is_lost() -> bool:
        return (await dock.nodes.get("a")).phase is NodePhase.LOST

    await until(is_lost)
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping
