"""Random histories, told some at a time."""

import asyncio
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.reliability.grounds import Grounds
from tests.reliability.histories import Histories

HISTORIES = 5
"""For every number."""

STEPS = 10


def explore(folder: Path, database_url: str, temporal: str, number: int) -> Counter[str]:
    """Some histories, the same for the same number but for what time does to them, and what came
    of asking. The first that goes wrong is told as it is: to make it shorter takes far longer than
    to read it."""
    figures = Counter[str]()
    with asyncio.Runner() as runner:
        grounds = runner.run(Grounds.opened(folder, database_url, temporal))
        mine = {"grounds": grounds, "runner": runner, "figures": figures}
        try:
            run_state_machine_as_test(
                seed(number)(type("Histories", (Histories,), mine)),
                settings=settings(
                    max_examples=HISTORIES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(grounds.close())
    return figures
