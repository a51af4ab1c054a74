"""Waiting for the world to change, without holding on to it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")

FIRST_SECONDS = 0.02
MOST_SECONDS = 5.0
GROWTH = 1.6


async def until(look: Callable[[], Awaitable[Answer | None]]) -> Answer:
    """Look until there is an answer, soon at first and then ever more rarely. Whoever calls this
    sets the deadline: an activity's start-to-close timeout."""
    pause = FIRST_SECONDS
    while (answer := await look()) is None:
        await asyncio.sleep(pause)
        pause = min(pause * GROWTH, MOST_SECONDS)
    return answer


async def until_true(look: Callable[[], Awaitable[bool]]) -> None:
    """Look until the answer is yes."""

    async def yes() -> bool | None:
        return await look() or None

    await until(yes)
