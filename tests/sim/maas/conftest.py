"""A region with three machines: at its own pace, and at that of a clock turned by hand (`slow`)."""

from collections.abc import AsyncIterator

import pytest

from sim.pace import HandClock
from tests.sim.region import HALTING, STOCK, Caller, Region


@pytest.fixture
def region() -> Region:
    return Region(STOCK)


@pytest.fixture
async def call(region: Region) -> AsyncIterator[Caller]:
    async with region.serve() as caller:
        yield caller


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def slow_region(clock: HandClock) -> Region:
    return Region(STOCK, pace=HALTING, clock=clock)


@pytest.fixture
async def slow(slow_region: Region) -> AsyncIterator[Caller]:
    async with slow_region.serve() as caller:
        yield caller
