"""Ways to run the command: in this process, or as a process of its own."""

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cli.__main__ import run

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Windlass: TypeAlias = Callable[..., Coroutine[Any, Any, Outcome]]


def in_process(*arguments: str) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
    except SystemExit as leave:  # completion leaves by itself
        code = leave.code if isinstance(leave.code, int) else 0
    finally:
        sys.stdin = stdin
    return Outcome(code, out.getvalue(), err.getvalue())


async def spawned(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    """The command as a process of its own, that nobody can type into."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli",
        *arguments,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
