import asyncio
import contextlib
import io
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from cli.__main__ import run
from tests.cli.peer import Peer, http_served, served

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Windlass: TypeAlias = Callable[..., Awaitable[Outcome]]


@pytest.fixture(autouse=True)
def _plain_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks on the wall show UTC, and nobody's environment leaks in."""
    for name in ("WINDLASS_ADDRESS", "WINDLASS_HTTP", "NO_COLOR", "FORCE_COLOR", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    async with served(peer), http_served(peer):
        yield peer


@pytest.fixture
def windlass(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Windlass:
    """Run a command line in this process, in a thread and a loop of its own."""
    monkeypatch.setenv("WINDLASS_ADDRESS", peer.address)
    monkeypatch.setenv("WINDLASS_HTTP", peer.http)

    async def ask(*arguments: str) -> Outcome:
        return await asyncio.to_thread(in_process, *arguments)

    return ask


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
