"""Changes that are followed to their ends: what their callers are told, and how it ends.

Hanging up ends the listening and never the work."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from api.asking import Context, refer
from api.launch import Launch
from domain.errors import DomainError
from protos.gen.edge.result_pb2 import Result
from store.journal import Journal
from store.tracked import Requested


class Progress:
    def __init__(self, journal: Journal, launch: Launch) -> None:
        self._journal = journal
        self._launch = launch

    async def of(
        self, asking: Awaitable[Requested | None], context: Context
    ) -> AsyncGenerator[Result, None]:
        """Ask for a change and tell what is told of it, until it has ended. What was done at once
        has nothing to tell."""
        try:
            requested = await asking
        except DomainError as error:
            for told in error.preface:
                yield Result(message=told)
            raise
        if requested is None:
            return
        refer(context, requested.operation.id)
        if requested.superseded is not None:
            self._launch.cancel_soon(requested.superseded)
        self._launch.soon(requested.operation)
        following = self._journal.follow(requested.operation.id, accepted=True)
        async with aclosing(following) as events:
            async for event in events:
                if event.told:
                    yield Result(message=event.note)
                if event.last and event.failure is not None:
                    raise event.failure.error()
