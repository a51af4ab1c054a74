"""`python -m tests.reliability [DRILL ...] [--seed N]`: drills with real processes.

Each prints one line of JSON with its figures; the exit code is 1 if a promise was not kept."""

import argparse
import asyncio
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from time import monotonic
from typing import Any

from tests.reliability.outcome import Outcome, say

Drills = Mapping[str, Callable[[int], Awaitable[Outcome]]]


def drills() -> Drills:
    """Every drill by its name. gRPC is loaded here, once it has been told that we start processes
    all the time and that none of them goes on with its connections."""
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    from tests.reliability import drill_boundaries, drill_kills, drill_store

    return {
        "kills": drill_kills.on_sqlite,
        "kills-postgresql": drill_kills.on_postgresql,
        "R01": drill_boundaries.drill,
        "R04": drill_store.postgres_killed,
        "R05": drill_store.api_killed,
        "R06": drill_store.same_request,
    }


async def run(chosen: Drills, seed: int) -> list[Outcome]:
    """Run these drills, one after the other. One that cannot go on is broken."""
    outcomes = []
    for name, drill in chosen.items():
        say(f"{name}: seed {seed}")
        began = monotonic()
        try:
            outcome = await drill(seed)
        except Exception as error:
            traceback.print_exc()
            outcome = Outcome(name, {"seed": seed}, [f"{type(error).__name__}: {error}"])
        outcome.figures["whole_seconds"] = round(monotonic() - began, 1)
        print(outcome.line, flush=True)
        outcomes.append(outcome)
    return outcomes


async def until_told(work: Coroutine[Any, Any, list[Outcome]]) -> list[Outcome]:
    """Do it. SIGTERM is heard like Ctrl-C, so that nothing we started is left behind."""
    task = asyncio.create_task(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def summary(outcomes: list[Outcome]) -> str:
    lines = [f"{'drill':18} {'seconds':>8} {'kills':>6}  promises"]
    for drill, figures, broken in outcomes:
        kills = sum(figures["kills"].values()) if "kills" in figures else ""
        verdict = f"{len(broken)} BROKEN" if broken else "kept"
        lines.append(f"{drill:18} {figures['whole_seconds']:8} {kills:6}  {verdict}")
        lines += [f"    {text}" for text in broken]
    return "\n".join(lines)


def main() -> int:
    there = drills()
    parser = argparse.ArgumentParser(prog="python -m tests.reliability")
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=", ".join(there))
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    unknown = [name for name in given.drills if name not in there]
    if unknown:
        parser.error(f"no such drill: {', '.join(unknown)}; there are {', '.join(there)}")
    chosen = {name: there[name] for name in given.drills or there}
    try:
        outcomes = asyncio.run(until_told(run(chosen, given.seed)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 130
    say(summary(outcomes))
    return 1 if any(outcome.broken for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
