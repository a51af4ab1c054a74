"""Random histories, a few for every seed, on either database."""

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

from tests.reliability.grounds import grounds
from tests.reliability.histories import explore
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome


async def on_sqlite(seed: int) -> Outcome:
    return await drill("histories", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("histories-postgresql", seed, postgres=True)


async def drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    """Only Temporal and the database are of the installation: worker and world are their own."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("temporal", machines=0, draw=draw, postgres=postgres) as there:
        figures = await asyncio.to_thread(_explored, there, seed)
        there.keeps_logs = bool(figures["broken"])
        return Outcome(name, {"seed": seed, **figures}, figures.pop("broken"))


def _explored(there: Installation, seed: int) -> dict[str, Any]:
    """In a thread, since hypothesis waits for what it draws, with a loop of the histories' own."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        opening = grounds(Path(folder), there.database, there.temporal)
        place = runner.run(opening.__aenter__())
        broken: list[str] = []
        figures: dict[str, Any] = {}
        try:
            figures |= explore(place, runner, seed)
        except Exception as error:
            broken = [str(error), *getattr(error, "__notes__", [])]
        finally:
            figures["kills"] = {"worker": place.kills}
            runner.run(opening.__aexit__(None, None, None))
        return {**figures, "broken": broken}
