"""Podman of a test's own, and what can be seen of its containers from outside."""

import asyncio
import os
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from agent.podman.runtime import Podman, proven

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
GROUPS = Path("/sys/fs/cgroup")


def block(second: int) -> str:
    """A network for each that runs tests at the same time: nobody's containers share one."""
    return f"10.{second}.{253 - WORKER}"


def folder(of: str) -> Path:
    """Not one of pytest's, which cannot be removed while podman has storage mounted in it."""
    return Path(tempfile.mkdtemp(prefix=f"windlass-{of}-"))


async def working(podman: Podman) -> Podman:
    """The same, if it can run containers here. Else the test is left out, and says so loudly."""
    if why := await proven(podman):
        await podman.close()
        pytest.skip(f"NO CONTAINERS WERE RUN: {why}")
    return podman


def podman_in(place: Path) -> Podman:
    return Podman(f"t{uuid4().hex[:8]}", place)


def limits(cgroup: str) -> tuple[int, int]:
    """The bytes and the thousandths of a core that a cgroup may take, in whichever of both kinds
    of cgroups it is."""
    inside = cgroup.lstrip("/")
    if (GROUPS / "memory" / inside).is_dir():
        memory = (GROUPS / "memory" / inside / "memory.limit_in_bytes").read_text()
        quota, period = (
            (GROUPS / "cpu" / inside / f"cpu.cfs_{name}_us").read_text()
            for name in ("quota", "period")
        )
    else:
        memory = (GROUPS / inside / "memory.max").read_text()
        quota, period = (GROUPS / inside / "cpu.max").read_text().split()
    return int(memory), 1000 * int(quota) // int(period)


async def fetched(host: str, port: int) -> bytes:
    """What a web server answers, or nothing while there is none."""
    try:
        reading, writing = await asyncio.open_connection(host, port)
        writing.write(b"GET /index.html HTTP/1.0\r\n\r\n")
        answer = await reading.read()
        writing.close()
    except OSError:
        return b""
    return answer
