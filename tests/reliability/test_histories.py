"""Some of the random histories that `make reliability` runs by the hundred."""

import secrets
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.reliability.exploring import explore


@pytest.mark.timeout(120)  # one that goes wrong is run once more
@pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)
@pytest.mark.parametrize("part", range(4))
def test_whatever_happens_everything_ends_as_the_rows_say(
    temporal: WorkflowEnvironment, database_url: str, tmp_path: Path, part: int
) -> None:
    number = secrets.randbelow(10**6)
    target = temporal.client.service_client.config.target_host
    try:
        explore(tmp_path, database_url, target, number)
    except Exception as error:
        error.add_note(f"again: make reliability T='histories --seed {number} --runs 1'")
        raise
