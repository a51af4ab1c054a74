"""Programs of ours as processes of their own."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.load import limit

ROOT = Path(__file__).parents[2]


def surroundings(**settings: str) -> dict[str, str]:
    """Our environment with these settings and no others."""
    return {
        **{name: value for name, value in os.environ.items() if "WINDLASS" not in name},
        **settings,
    }


@asynccontextmanager
async def running(*words: str, environment: Mapping[str, str]) -> AsyncIterator[Process]:
    """Python with these words behind it. It is killed in the end, unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words), cwd=ROOT, env=environment, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def told(process: Process, event: str) -> dict[str, str]:
    """The log line of that event, once it is there. The log must be written as JSON."""
    assert process.stderr is not None
    async with limit(50):
        async for raw in process.stderr:
            line: dict[str, str] = json.loads(raw)
            if line["event"] == event:
                return line
    raise AssertionError(f"it ended without a word of {event!r}")


class Ending(NamedTuple):
    """What a program left behind."""

    code: int | None
    out: str
    err: str

    @property
    def refusal(self) -> list[str]:
        """What it said, if it ended as a program does that cannot start; warnings are left out."""
        assert self.code == 1
        assert "Traceback" not in self.err
        return [line for line in self.err.splitlines() if " [warning " not in line]


async def ended(*words: str, environment: Mapping[str, str]) -> Ending:
    """The same, run to its end."""
    async with running(*words, environment=environment) as process, limit(50):
        out, err = await process.communicate()
    return Ending(process.returncode, out.decode(), err.decode())
