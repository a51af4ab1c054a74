"""What a workflow writes to our own rows, or reads from them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio import workflow

from workflows.policies import BOOKS
from workflows.together import ended

Fact = TypeVar("Fact")
Answer = TypeVar("Answer")


async def book(step: Callable[[Any, Fact], Awaitable[Answer]], fact: Fact) -> Answer:
    """Write to our own rows, or read them. Being told to stop meanwhile changes nothing here, or
    how an operation ended might never be written; the next step asks for it."""
    writing = workflow.execute_local_activity_method(step, fact, **BOOKS)
    task = asyncio.create_task(writing)
    await ended([task])
    return task.result()
