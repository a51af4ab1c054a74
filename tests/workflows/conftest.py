"""A yard of the test's own, on whatever database the test is run with."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest
from temporalio.testing import WorkflowEnvironment

from store.engine import Database
from store.secrets import Secrets
from tests.workflows.yard import Yard, yard

Opening = Callable[..., AbstractAsyncContextManager[Yard]]


@pytest.fixture
def opened(
    temporal: WorkflowEnvironment, database: Database, vault: Secrets, queues: str
) -> Opening:
    return partial(yard, temporal.client, database, vault, queues)
