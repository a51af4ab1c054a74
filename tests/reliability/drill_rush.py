"""Five hundred slots and a hundred machines, while every fifth answer of MAAS is lost."""

import random
from time import monotonic

from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.reliability.installation import installed
from tests.reliability.outcome import Outcome
from tests.reliability.rush import Losing, rush

MACHINES = 100
CLUSTERS, SLOTS_EACH = 10, 50
LOST = 0.2


async def on_sqlite(seed: int) -> Outcome:
    return await drill("rush", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("rush-postgresql", seed, postgres=True)


async def drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    """Only the database is a process of its own: nothing is killed here."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed(machines=0, draw=draw, postgres=postgres) as there:
        database = Database(there.database)
        vault = Secrets(database, Seal.from_file(there.folder / "seal.key"))
        losing, began = Losing(LOST, draw), monotonic()
        try:
            async with rush(database, vault, machines=MACHINES, losing=losing) as place:
                found = await place.serve(await place.order(CLUSTERS, SLOTS_EACH))
        finally:
            await database.close()
        there.keeps_logs = bool(found)
        figures = {
            "seed": seed,
            "seconds": round(monotonic() - began, 1),
            "slots": CLUSTERS * SLOTS_EACH,
            "machines": MACHINES,
            "rounds": place.rounds,
            "tries": place.tries,
            "calls": losing.calls,
            "lost": losing.lost,
        }
        return Outcome(name, figures, found)
