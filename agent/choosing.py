"""Which runtime carries pods here, and why."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from agent.podman.runtime import Podman, proven
from agent.process import Processes
from agent.runtime import Runtime
from agent.simulated import Simulated
from domain.errors import Unavailable
from domain.frozen import Frozen

log = structlog.get_logger()


class Choice(Frozen):
    """What the operator wants of the runtime."""

    wanted: str = "auto"
    fallback: bool = False
    """Whether `auto` may be processes, which isolate nothing, where podman cannot be used."""
    commands: bool = False
    """Whether processes take commands from outside: development alone."""


async def chosen(
    choice: Choice,
    node: str,
    folder: Path,
    *,
    prove: Callable[[Podman], Awaitable[str]] = proven,
) -> tuple[Runtime, str]:
    """The runtime that is wanted, with the reason for it. `auto` has podman prove itself.
    Unavailable if it cannot, unless processes may take its place."""
    if choice.wanted == "simulated":
        return Simulated(folder=folder), "it was asked for"
    processes = Processes(folder / "process", commands=choice.commands)
    if choice.wanted == "process":
        log.warning("pods are plain processes, which isolate nothing: no place for tenants")
        return processes, "it was asked for"
    podman = Podman(node, folder / "podman")
    why = await prove(podman)
    if not why:
        return podman, "a test container ran on it"
    await podman.close()
    if choice.wanted == "podman" or not choice.fallback:
        raise Unavailable(
            f"podman cannot be used here: {why}",
            do="mend that; only where no tenants run anything set WINDLASS_AGENT__RUNTIME=process",
        )
    log.warning("podman cannot be used here: pods are plain processes", why=why)
    return processes, f"podman cannot be used: {why}"
