"""Reading on while the database does not answer.

What was accepted goes on without those who follow it, so a database that is slow for a while ends
nobody's stream: whoever follows reads again, with growing pauses, for as long as the patience
lasts."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import structlog

from domain.errors import Unavailable

PATIENCE_SECONDS = 600.0
"""How long a follower waits for a database that does not answer."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 5.0

Answer = TypeVar("Answer")


class Accepted(NamedTuple):
    """What goes on whether or not anybody follows it, and the command that shows it."""

    what: str
    command: str


log = structlog.get_logger()


async def read_patiently(
    read: Callable[[], Awaitable[Answer]],
    accepted: Accepted | None = None,
    *,
    patience: float | None = None,
) -> Answer:
    """What `read` answers once the database does. Unavailable after the patience, which says that
    what was accepted goes on."""
    patient_until = time.monotonic() + (PATIENCE_SECONDS if patience is None else patience)
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await read()
        except Unavailable as error:
            if time.monotonic() + pause > patient_until:
                raise (_ended(error, accepted) if accepted else error) from error
            log.warning("read again, the database did not answer", error=error.message)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 (jitter, no secret)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _ended(error: Unavailable, accepted: Accepted) -> Unavailable:
    return Unavailable(
        f"{error.message}; {accepted.what} goes on",
        subject=accepted.what,
        reason=error.reason,
        do=f"do not ask for it again, {accepted.command} shows how it stands",
        facts=error.facts,
    )
