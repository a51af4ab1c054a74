"""Waiting for the world to change, without holding on to it."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

Answer = TypeVar("Answer")

FIRST_SECONDS = 0.02
MOST_SECONDS = 10.0
SHARE = 0.15
"""The next look comes after this share of the time waited so far: what takes seconds is noticed
at once, and what takes half an hour is not asked for all the time."""


async def until(look: Callable[[], Awaitable[Answer | None]]) -> Answer:
    """Look until there is an answer. Whoever calls this sets the deadline: an activity's
    start-to-close timeout."""
    began = monotonic()
    while (answer := await look()) is None:
        pause = (monotonic() - began) * SHARE
        await asyncio.sleep(min(max(pause, FIRST_SECONDS), MOST_SECONDS))
    return answer


async def until_true(look: Callable[[], Awaitable[bool]]) -> None:
    """Look until the answer is yes."""

    async def yes() -> bool | None:
        return await look() or None

    await until(yes)
