"""Waiting for the world to change, without holding on to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import TypeVar

import structlog
from temporalio import activity

from domain.errors import Overdue, Unavailable

log = structlog.get_logger()

Answer = TypeVar("Answer")

BEAT_SECONDS = 1.0
FIRST_SECONDS = 0.02
MOST_SECONDS = 10.0
SHARE = 0.15
"""The next look comes after this share of the time waited so far: what takes seconds is noticed
at once, and what takes half an hour is not asked for all the time."""

LOOK_SECONDS = 60.0
"""How long one look may take, whatever the client under it promises."""

A_WHILE_SECONDS = 120.0
MOVING = "STORAGE_MOVING"
NEWS_SECONDS = 60.0

MARGIN = timedelta(seconds=15)
"""How much earlier than Temporal we give up, to say ourselves what was waited for."""


@asynccontextmanager
async def beating(every_seconds: float | None = None) -> AsyncIterator[None]:
    """Have Temporal know that somebody is at it, so that what reached nobody is soon given to
    another."""
    pause = BEAT_SECONDS if every_seconds is None else every_seconds

    async def beat() -> None:
        while True:
            await asyncio.sleep(pause)
            activity.heartbeat(_first())

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


def began() -> datetime:
    """When the step was first begun by anybody. Each attempt tells the next with its heartbeats; a
    step that is scheduled while nobody serves its queue has not begun."""
    activity.heartbeat(_first())
    return datetime.fromisoformat(_first())


def _first() -> str:
    info = activity.info()
    return str(info.heartbeat_details[0] if info.heartbeat_details else info.started_time)


async def until(what: str, look: Callable[[], Awaitable[Answer | None]]) -> Answer:
    """Look until there is an answer, or until it is Overdue, which is final: the hand has waited
    nearly as long as its policy lets one attempt take."""
    limit = activity.info().start_to_close_timeout
    began = monotonic()
    while (answer := await _in_time(what, look)) is None:
        waited = monotonic() - began
        if limit and waited > (limit - MARGIN).total_seconds():
            raise Overdue(f"{what}: not within {limit}")
        await asyncio.sleep(min(max(waited * SHARE, FIRST_SECONDS), MOST_SECONDS))
    return answer


async def for_a_while(
    left: Callable[[], Awaitable[str]], *, looks: int = 1, apart_seconds: float = 0
) -> None:
    """Look for some minutes until nothing is left to be waited for, at so many looks in a row. Else
    it is Unavailable and says what is, so that whoever follows along is told, and it is asked
    again."""
    began, good = monotonic(), 0
    while True:
        said = await _in_time("waiting for what is left", left)
        good = 0 if said else good + 1
        if good == looks:
            return
        waited = monotonic() - began
        if said and waited > A_WHILE_SECONDS:
            raise Unavailable(said, reason=MOVING)
        pause = min(max(waited * SHARE, FIRST_SECONDS), MOST_SECONDS)
        await asyncio.sleep(max(pause, apart_seconds))


async def news(
    what: str, look: Callable[[], Awaitable[Answer]], is_news: Callable[[Answer], bool]
) -> Answer:
    """Look until there is something new, for a minute; then what was seen last is the answer."""
    began = monotonic()
    while not is_news(seen := await _in_time(what, look)):
        waited = monotonic() - began
        if waited > NEWS_SECONDS:
            break
        await asyncio.sleep(min(max(waited * SHARE, FIRST_SECONDS), MOST_SECONDS))
    return seen


async def _in_time(what: str, look: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await look()
    except TimeoutError as error:
        log.exception("a look did not end", what=what)  # with where it stood
        raise Unavailable(f"{what}: one look took more than {LOOK_SECONDS:g} s") from error


async def until_true(what: str, look: Callable[[], Awaitable[bool]]) -> None:
    """Look until the answer is yes."""

    async def yes() -> bool | None:
        return await look() or None

    await until(what, yes)
