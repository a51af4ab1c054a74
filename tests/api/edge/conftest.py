"""A client of the edge contract, and the terms on which it is served."""

import pytest

from settings import Edge as Terms
from settings import Settings
from tests.api.caller import Caller
from tests.api.edge.stubs import Edge


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
