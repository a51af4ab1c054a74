"""How late a change reaches a thousand resource managers at one API process."""

from store.engine import Database
from store.shelf import Shelf
from tests.bench.figures import Figure, figure, percentile
from tests.reliability.drill_notify import MANAGERS, crowded, describe

CHANGES = 5
"""One after the other, for each run."""


async def measure(repeats: int) -> list[Figure]:
    """As `make reliability` drills it, without those who do not read: from before the call that
    makes the change until each has heard of it. All of them live in the process of the bench."""
    async with crowded("delivery", seed=1) as (there, crowd):
        database = Database(there.database)
        await describe(Shelf(database), MANAGERS)
        await database.close()
        await crowd.connect(MANAGERS)
        await crowd.told("warming")
        runs = [
            [late for n in range(CHANGES) for late in await crowd.told(f"change-{run}-{n}")]
            for run in range(repeats)
        ]
    who = f"a change to each of {MANAGERS} resource managers"
    return [
        figure(f"{who}: p50", "ms", *(1000 * percentile(late, 0.5) for late in runs)),
        figure(f"{who}: p99", "ms", *(1000 * percentile(late, 0.99) for late in runs)),
    ]
