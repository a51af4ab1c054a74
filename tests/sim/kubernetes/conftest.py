"""A simulated cluster, as kubeadm leaves it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sim.apiserver import Built, built


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Built]:
    """A control-plane node and two workers, without a pod network."""
    async with built(tmp_path) as site:
        await site.initialise()
        await site.worker("metal-1")
        await site.worker("metal-2")
        yield site
