"""Which runtime carries pods here, and why."""

from pathlib import Path

from agent.process import Processes
from agent.runtime import Runtime
from agent.simulated import Simulated


async def chosen(wanted: str, folder: Path) -> tuple[Runtime, str]:
    """The runtime that is wanted, with the reason for it."""
    if wanted == "simulated":
        return Simulated(folder=folder), "it was asked for"
    return Processes(folder / "process"), "it was asked for"
