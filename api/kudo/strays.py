"""Strays: copies on nodes that no row knows of, so that nobody else would ever remove them.

A database that was restored knows nothing of what came after its backup, and an order may have lain
somewhere until all that was known of it was forgotten. So a node that begins to say that it runs is
asked what it has, and what is nobody's is removed."""

import asyncio
from collections.abc import Sequence

import structlog

from domain.agents import Agents, Copy
from domain.errors import DomainError, Unsupported
from store.nodes import Nodes

AT_ONCE = 16
"""So many nodes are asked at the same time: after we were away all of them come."""

log = structlog.get_logger()


class Strays:
    def __init__(self, nodes: Nodes, agents: Agents) -> None:
        self._nodes, self._agents = nodes, agents
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def soon(self, node: str) -> None:
        """Look at a node, unless somebody does, while it goes on saying how it is."""
        if node not in self._tasks:
            self._tasks[node] = task = asyncio.create_task(self._look(node))
            task.add_done_callback(lambda _: self._tasks.pop(node, None))

    async def clear(self, node: str) -> Sequence[Copy]:
        """Have a node remove what is nobody's. Returns what that was.

        What it has is asked first: a copy that is there by then has its row already, or lost it."""
        there = await self._nodes.get(node)
        held = await self._agents.held(node, there.address)
        strays = await self._nodes.strays(node, held)
        for copy in strays:
            log.warning("a copy that is nobody's is removed", node=node, **copy.model_dump())
            await self._agents.drop(node, there.address, copy)
        return strays

    async def close(self) -> None:
        """Leave off. Whoever is not done with is looked at again when it comes next."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, node: str) -> None:
        try:
            async with self._turns:
                await self.clear(node)
        except Unsupported:
            pass  # an original agent, which keeps nothing that it does not tell of
        except DomainError as error:
            log.warning("not looked for strays", node=node, error=error.message)
        except Exception:
            log.exception("looking for strays went wrong", node=node)
