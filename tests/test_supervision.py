"""What goes on beside everything else goes on, whatever becomes of it once."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from supervision import Supervisor
from tests.support.load import limit


async def until(met: Callable[[], bool]) -> None:
    async with limit(60):
        while not met():  # noqa: ASYNC110 - it is true elsewhere
            await asyncio.sleep(0.01)


async def fails() -> None:
    raise LookupError("by a bug")


async def ends() -> None:
    """It should not."""


@pytest.mark.parametrize("first", [fails, ends])
async def test_what_fails_or_ends_is_begun_again_and_measured(
    first: Callable[[], Awaitable[None]],
) -> None:
    measured: list[tuple[str, bool]] = []
    begun = 0

    async def watch() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            await first()
        else:
            await asyncio.Event().wait()

    supervisor = Supervisor(lambda name, runs: measured.append((name, runs)), first=0.01)
    with capture_logs() as lines:
        supervisor.keep("the key watch", watch)
        await until(lambda: begun == 3)
        await supervisor.close()
    assert measured == [("the key watch", runs) for runs in (True, False, True, False, True)]
    assert [line["task"] for line in lines] == ["the key watch"] * 2


async def test_the_pause_doubles_up_to_its_limit() -> None:
    loop, moments = asyncio.get_running_loop(), []

    async def broken() -> None:
        moments.append(loop.time())
        raise LookupError

    supervisor = Supervisor(lambda *_: None, first=0.05, most=0.2)
    with capture_logs():
        supervisor.keep("broken", broken)
        await until(lambda: len(moments) == 5)
        await supervisor.close()
    pauses = [after - before for before, after in pairwise(moments)]
    for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.2), strict=True):
        assert pause >= least * 0.9


async def test_all_are_stopped_and_waited_for() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    supervisor = Supervisor(lambda *_: None)
    for name in "ab":
        supervisor.keep(name, work)
    await asyncio.sleep(0)
    await supervisor.close()
    await supervisor.close()
    assert ended == [1, 1]
