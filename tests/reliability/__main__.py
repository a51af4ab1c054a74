"""`python -m tests.reliability [DRILL ...] [--seed N]`: drills with real processes.

Each prints one line of JSON with its figures; the exit code is 1 if a promise was not kept."""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable
from time import monotonic

from tests.reliability import drill_kills
from tests.reliability.outcome import Outcome, say

DRILLS: dict[str, Callable[[int], Awaitable[Outcome]]] = {
    "kills": drill_kills.on_sqlite,
    "kills-postgresql": drill_kills.on_postgresql,
}


async def run(names: list[str], seed: int) -> list[Outcome]:
    outcomes = []
    for name in names:
        say(f"{name}: seed {seed}")
        began = monotonic()
        outcome = await DRILLS[name](seed)
        print(outcome.line, flush=True)
        say(f"{name}: {monotonic() - began:.0f} s\n")
        outcomes.append(outcome)
    return outcomes


def summary(outcomes: list[Outcome]) -> str:
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.drill:20} {'BROKEN' if outcome.broken else 'kept'}")
        lines += [f"    {text}" for text in outcome.broken]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability")
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=", ".join(DRILLS))
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    unknown = [name for name in given.drills if name not in DRILLS]
    if unknown:
        parser.error(f"no such drill: {', '.join(unknown)}; there are {', '.join(DRILLS)}")
    outcomes = asyncio.run(run(given.drills or list(DRILLS), given.seed))
    say(summary(outcomes))
    return 1 if any(outcome.broken for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
