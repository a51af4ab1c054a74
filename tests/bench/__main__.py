"""`python -m tests.bench [MEASURE ...]`: measure, print tables, and write build/bench.json.

Everything is measured in processes that the bench starts and stops itself, on state of its own."""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, load, show

REPEATS = 5
OUTPUT = Path(__file__).parents[2] / "build" / "bench.json"

Measures = Mapping[str, Callable[[int], Awaitable[list[Figure]]]]


def measures() -> Measures:
    """Every measure by its name. gRPC is loaded here, once it has been told that we start
    processes all the time and that none of them goes on with its connections: one that it does for
    all the same may end before it has become the program it was started for."""
    if "grpc" in sys.modules:
        raise RuntimeError("gRPC is there before it could be told that processes are started")
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    from tests.bench import (
        accepting,
        appinsts,
        beats,
        command,
        containers,
        creation,
        crowd,
        delivery,
        doors,
        monitors,
        placement,
        pools,
        reads,
        shown,
        stats,
        stored,
        upgrades,
        window,
    )

    return {
        "creation": creation.measure,
        "pools": pools.measure,
        "upgrades": upgrades.measure,
        "reads": reads.measure,
        "stats": stats.measure,
        "doors": doors.measure,
        "accepting": accepting.measure,
        "crowd": crowd.measure,
        "monitors": monitors.measure,
        "command": command.measure,
        "window": window.measure,
        "placement": placement.measure,
        "appinsts": appinsts.measure,
        "shown": shown.measure,
        "stored": stored.measure,
        "delivery": delivery.measure,
        "beats": beats.measure,
        "containers": containers.measure,
    }


async def run(chosen: Measures, repeats: int) -> None:
    """Measure one after the other. What was measured is written down at once."""
    found: dict[str, Any] = {}
    for name, measure in chosen.items():
        before = load()
        figures = await measure(repeats)
        after = load()
        show(f"{name} (load before {before}; after {after})", figures)
        found[name] = {"load": [before, after], "figures": [each.written() for each in figures]}
        _write(found)


def _write(found: Mapping[str, Any]) -> None:
    written = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "measures": found,
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(written, indent=1) + "\n")


def main() -> None:
    known = measures()
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("measures", nargs="*", help=f"{', '.join(known)}; all if none is named")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    if unknown := set(given.measures) - set(known):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    chosen = {name: known[name] for name in given.measures or known}
    asyncio.run(run(chosen, given.repeats))
    print(f"written to {OUTPUT}", file=sys.stderr)


if __name__ == "__main__":
    main()
