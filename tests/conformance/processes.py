"""Programs that others wrote, run beside a test: output in a file, a limit on every wait."""

import asyncio
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.load import limit

STOP_SECONDS = 10
_PAUSE_SECONDS = 0.1
_TAIL = 2000


class EndedBadlyError(Exception):
    """A program ended with something else than 0, or took too long."""


@asynccontextmanager
async def running(
    *words: str | Path, log: Path, environment: Mapping[str, str]
) -> AsyncIterator[Process]:
    """A program that serves, until the block ends. It is told to stop, and then made to."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=DEVNULL, stdout=output, stderr=STDOUT, env=environment, cwd=log.parent
        )
    try:
        yield process
    finally:
        await stop(process)


async def stop(process: Process) -> None:
    """End a process. One that has ended is left alone."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


async def done(
    words: Sequence[str | Path],
    *,
    log: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    gently: bool = False,
) -> str:
    """Run a program to its end and return its output, which is added to the log too. Gently: let
    others go first."""
    process = await asyncio.create_subprocess_exec(
        *(("nice", "-n", "10") if gently else ()),
        *words,
        stdin=DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=STDOUT,
        env=environment,
        cwd=folder or log.parent,
    )
    name = Path(words[0]).name
    try:
        raw, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError as error:
        raise EndedBadlyError(f"{name} took more than {seconds:.0f} s") from error
    finally:
        await stop(process)
    output = raw.decode(errors="replace")
    with log.open("a") as file:
        file.write(f"$ {' '.join(map(str, words))}\n{output}\n")
    if process.returncode:
        last = next(reversed(output.strip().splitlines()), "it said nothing")
        raise EndedBadlyError(f"{name} ended with {process.returncode}: {last[:_TAIL]} (see {log})")
    return output


async def eventually(what: str, probe: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
    """Wait until the probe says so."""
    try:
        async with limit(seconds):
            while True:
                if await probe():
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
    except TimeoutError as error:
        raise AssertionError(f"not within {seconds:.0f} s: {what}") from error
