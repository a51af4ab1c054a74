"""Questions that arrive together are asked together.

Whoever asks waits for the batch that begins after the question, so an answer is never older than
its question; under load many questions share one transaction. Nothing is cached."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

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


def _settle(future: "asyncio.Future[Answer]", answer: Answer | Exception) -> None:
    if isinstance(answer, Exception):
        _fail(future, answer)
    elif not future.done():
        future.set_result(answer)


def _fail(future: "asyncio.Future[Answer]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
