"""Which Windlass this is. Found out once, when the process starts."""

import asyncio
import importlib.metadata
import platform
import sys
from contextlib import suppress
from pathlib import Path

from domain.frozen import Frozen

ROOT = Path(__file__).parent.parent
INFO = Path(__file__).with_name("build_info.json")
"""Written by whoever builds an image or a wheel: the fields of `Build` that it knows."""

GIT_SECONDS = 3.0
UNKNOWN = "unknown"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Build(Frozen):
    version: str = UNKNOWN
    commit: str = UNKNOWN
    tree_state: str = UNKNOWN
    """`clean`, or `dirty` if something was changed and not committed."""
    date: str = UNKNOWN
    """When it was built; of a checkout, when its commit was made."""
    python: str = platform.python_version()
    compiler: str = platform.python_implementation()
    platform: str = f"{sys.platform}/{MACHINES.get(platform.machine(), platform.machine())}"


async def found(info: Path = INFO, root: Path = ROOT) -> Build:
    """What the build wrote down, else what git says of the checkout, else what we are installed
    as. Never fails: a server that does not know its commit still serves."""
    if (written := _read(info)) is not None:
        return written
    build = Build(version=_version())
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(GIT_SECONDS):
            top = await _git(root, "rev-parse", "--show-toplevel")
            commit = (await _git(root, "log", "-1", "--format=%H %cI")).split()
            changes = await _git(root, "status", "--porcelain", "--untracked-files=no")
        if top == str(root) and len(commit) == 2:  # not a checkout that we were unpacked in
            state = "dirty" if changes else "clean"
            return build.model_copy(
                update={"commit": commit[0], "date": commit[1], "tree_state": state}
            )
    return build


def _read(info: Path) -> Build | None:
    with suppress(OSError, ValueError):
        return Build.model_validate_json(info.read_bytes())
    return None


def _version() -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return f"v{importlib.metadata.version('windlass')}"
    return UNKNOWN


async def _git(root: Path, *words: str) -> str:
    """The answer of git, empty if it has none. It takes no lock, since others may be at work."""
    git = await asyncio.create_subprocess_exec(
        "git",
        "--no-optional-locks",
        "-C",
        str(root),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await git.communicate()
    except asyncio.CancelledError:
        git.kill()
        raise
    return answer.decode().strip() if git.returncode == 0 else ""
