from collections.abc import AsyncIterator

import pytest

from tests.clients.cluster import Cluster
from tests.metal import metal


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with metal() as site:
        cluster = Cluster(site)
        yield cluster
        await cluster.nodes.close()
