"""Which runtime carries pods here, and why."""

from pathlib import Path

import structlog

from agent.podman.runtime import Podman, proven
from agent.process import Processes
from agent.runtime import Runtime
from agent.simulated import Simulated
from domain.errors import Unavailable

log = structlog.get_logger()


async def chosen(wanted: str, node: str, folder: Path) -> tuple[Runtime, str]:
    """The runtime that is wanted, with the reason for it. `auto` has podman prove itself, and falls
    back to processes; Unavailable if podman is wanted and cannot."""
    if wanted == "simulated":
        return Simulated(folder=folder), "it was asked for"
    if wanted == "process":
        return Processes(folder / "process"), "it was asked for"
    podman = Podman(node, folder / "podman")
    why = await proven(podman)
    if not why:
        return podman, "a test container ran on it"
    await podman.close()
    if wanted == "podman":
        raise Unavailable(
            f"podman cannot be used here: {why}",
            do="mend that, or set WINDLASS_AGENT__RUNTIME to process",
        )
    log.warning("podman cannot be used here: pods are processes", why=why)
    return Processes(folder / "process"), f"podman cannot be used: {why}"
