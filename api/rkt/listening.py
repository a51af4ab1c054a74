"""Following events: what has happened since a time, and then what happens, with no gap between."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from domain.errors import Exhausted
from domain.happening import SECOND_NS, Happening, Interest, Place
from domain.window import PAGE, Window

BATCH = 100
"""The most events in one message."""

LOOK_SECONDS = 5.0
"""How often a listener looks by itself."""

KEEP_ALIVE_SECONDS = 30.0

LATEST_NS = 2**63 - 1
"""As late as anything can be written down to have happened, in the year 2262."""

BEHIND_SECONDS = 60.0
"""How long a listener may take for what it was sent, before it is told that it is too slow."""


async def listen(
    window: Window, interest: Interest, subscribed: Callable[[tuple[()]], Awaitable[None]]
) -> AsyncGenerator[list[Happening], None]:
    """Batches of what is of interest; an empty one says that all is well. It ends when `until` is
    over. `subscribed` is called once nothing can be missed any more. No more than a page is held
    here, since what happened lies in rows: a listener that is slow holds up itself alone."""
    since = min(interest.since * SECOND_NS, LATEST_NS)
    until = interest.until * SECOND_NS
    place = Place() if since and since <= time.time_ns() else await window.now()
    await subscribed(())
    said = time.monotonic()
    with window.watching() as news:
        while True:
            news.clear()  # before reading, so that nothing falls between
            over = bool(until) and time.time_ns() >= until
            page = await window.happened(place, since_ns=since)
            found = [heard.happening for heard in page if interest.covers(heard.happening)]
            for first in range(0, len(found), BATCH):
                began = time.monotonic()
                yield found[first : first + BATCH]
                said = time.monotonic()
                if said - began > BEHIND_SECONDS:
                    raise _too_slow(found[min(first + BATCH, len(found)) - 1])
            if page:
                place = page[-1].place
            if len(page) == PAGE:
                continue
            if over:
                return
            if time.monotonic() - said > KEEP_ALIVE_SECONDS:
                yield []
                said = time.monotonic()
            left = (until - time.time_ns()) / SECOND_NS if until else LOOK_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), timeout=min(LOOK_SECONDS, max(0.0, left)))


def _too_slow(last: Happening) -> Exhausted:
    return Exhausted(
        "events were not taken as fast as they came",
        reason="LISTENER_TOO_SLOW",
        do=f"listen again with since_time {last.time_ns // SECOND_NS - 1}",
    )
