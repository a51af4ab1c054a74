"""Questions that arrive together are asked together.

Whoever asks waits for the batch that begins after the question, so an answer is never older than
its question; under load many questions share one transaction. Nothing is cached.

Callers who were answered together tend to come back together. So a batch waits for as many as the
last one had, while somebody still comes every moment; who is alone never waits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

MOMENT_SECONDS = 0.001
"""The shortest the loop can sleep."""

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Gather(Generic[Question, Answer]):
    """Calls `answer` with the questions that came while the last batch was being answered.

    `answer` gives one answer per question, in order; an answer that is an exception is raised to
    the one who asked. If `answer` itself fails, everyone in the batch is told."""

    def __init__(
        self,
        answer: Callable[[Sequence[Question]], Awaitable[Sequence[Answer | Exception]]],
        *,
        most: int = 200,
    ) -> None:
        self._answer = answer
        self._crowd = 1
        self._most = most
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            await self._company()
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                answers = await self._answer([question for question, _ in batch])
            except Exception as error:  # told to everyone who asked
                for _, future in batch:
                    _fail(future, error)
            except asyncio.CancelledError:
                for _, future in batch:
                    future.cancel()
                raise
            else:
                for (_, future), answer in zip(batch, answers, strict=True):
                    _settle(future, answer)

    async def _company(self) -> None:
        """Wait for the others, if there were others the last time."""
        seen = 0
        while seen < len(self._waiting) < self._crowd:
            seen = len(self._waiting)
            await asyncio.sleep(MOMENT_SECONDS)
        self._crowd = min(len(self._waiting), self._most)


def _settle(future: "asyncio.Future[Answer]", answer: Answer | Exception) -> None:
    if isinstance(answer, Exception):
        _fail(future, answer)
    elif not future.done():
        future.set_result(answer)


def _fail(future: "asyncio.Future[Answer]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
