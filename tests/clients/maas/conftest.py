"""Our client of a region with six machines: at its own pace, and by a clock turned by hand."""

from collections.abc import AsyncIterator

import pytest

from clients.maas import MaasMachines
from sim.pace import HandClock
from tests.clients.maas.pool import client
from tests.sim.region import HALTING, Region, some


@pytest.fixture
def region() -> Region:
    return Region(some(6, tags=("metal",)))


@pytest.fixture
async def machines(region: Region) -> AsyncIterator[MaasMachines]:
    async with region.serve(), client(region) as machines:
        yield machines


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def slow_region(clock: HandClock) -> Region:
    return Region(some(6, tags=("metal",)), pace=HALTING, clock=clock)


@pytest.fixture
async def slow(slow_region: Region) -> AsyncIterator[MaasMachines]:
    async with slow_region.serve(), client(slow_region) as machines:
        yield machines
