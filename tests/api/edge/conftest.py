"""A client of the edge contract, and the terms on which it is served."""

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from settings import Edge as Terms
from settings import Settings
from tests.api.caller import Caller
from tests.api.edge.grounds import standing
from tests.api.edge.stubs import Edge
from tests.api.edge.works import Served, serving


@pytest.fixture
def terms() -> Terms:
    """What its operator decided. Tests that want something else say so."""
    return Terms()


@pytest.fixture
def settings(settings: Settings, terms: Terms) -> Settings:
    return settings.model_copy(update={"edge": terms})


@pytest.fixture
def edge(caller: Caller) -> Edge:
    return Edge(caller.channel)


@pytest.fixture(scope="module")
async def served(
    temporal: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    async with serving(temporal.client, tmp_path_factory.mktemp("instances")) as served:
        yield served


@pytest.fixture(scope="session", params=[False, True], ids=["proper", "legacy"])
async def legacy(request: pytest.FixtureRequest) -> bool:
    """Whether refusals leave without their codes."""
    return bool(request.param)


@pytest.fixture(scope="session")
async def site(legacy: bool, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Edge]:
    """Everything that a refusal can be about, served in either mode."""
    async with standing(tmp_path_factory.mktemp("site"), legacy=legacy) as edge:
        yield edge
