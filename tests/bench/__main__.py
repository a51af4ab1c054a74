"""`python -m tests.bench [MEASURE ...]`: measure, print a table, and write build/bench.json.

Everything is measured in processes that the bench starts and stops itself, on state of its own."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import uvloop

from tests.bench import creation
from tests.bench.figures import Figure, load, show
from tests.bench.place import ROOT

REPEATS = 7
OUTPUT = ROOT / "build" / "bench.json"

MEASURES: dict[str, Callable[[int], Awaitable[list[Figure]]]] = {
    "creation": creation.measure,
}


async def run(chosen: list[str], repeats: int) -> None:
    measures: dict[str, Any] = {}
    written = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "measures": measures,
    }
    for name in chosen:
        before = load()
        figures = await MEASURES[name](repeats)
        show(f"{name}   (load before {before}, after {load()})", figures)
        measures[name] = {
            "load": [before, load()],
            "figures": [f.written() for f in figures],
        }
        OUTPUT.parent.mkdir(exist_ok=True)
        OUTPUT.write_text(json.dumps(written, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="default: all")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    uvloop.run(run(given.measures or list(MEASURES), given.repeats))
    print(f"written to {OUTPUT}", file=sys.stderr)


if __name__ == "__main__":
    main()
