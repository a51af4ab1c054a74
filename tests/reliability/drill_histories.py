"""Random histories, a few for every seed, on either database."""

import asyncio
import random
from collections.abc import Iterator, Sequence

from tests.reliability.exploring import explore
from tests.reliability.installation import installed
from tests.reliability.outcome import Outcome


async def on_sqlite(seed: int) -> Outcome:
    return await drill("histories", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("histories-postgresql", seed, postgres=True)


async def drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    """Only Temporal and the database are of the installation: worker and world are their own. In a
    thread, since hypothesis waits for what it draws, and has a loop of its own."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    figures, broken = dict[str, int](), list[str]()
    async with installed("temporal", machines=0, draw=draw, postgres=postgres) as there:
        where = there.folder, there.database, there.temporal
        try:
            figures |= await asyncio.to_thread(explore, *where, seed)
        except Exception as error:
            broken = [text for one in _told(error) for text in (str(one), *_notes(one))]
        there.keeps_logs = bool(broken)
    kills = {"worker": figures.pop("kills", 0)}
    return Outcome(name, {"seed": seed, **figures, "kills": kills}, broken)


def _told(error: Exception) -> Iterator[Exception]:
    """What went wrong itself: if it did not when it was told again, it is one of several."""
    if not isinstance(error, ExceptionGroup):
        yield error
        return
    for one in error.exceptions:
        yield from _told(one)


def _notes(error: Exception) -> Sequence[str]:
    return getattr(error, "__notes__", ())
