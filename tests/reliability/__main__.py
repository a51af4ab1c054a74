"""`python -m tests.reliability [DRILL ...] [--seed N] [--runs N]`: drills with real processes.

Each run prints one line of JSON with its figures; the exit code is 1 if a promise was not kept."""

import argparse
import asyncio
import logging
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import groupby
from time import monotonic
from typing import Any, NamedTuple

import structlog

from tests.reliability.outcome import Outcome, say


class Drill(NamedTuple):
    run: Callable[[int], Awaitable[Outcome]]
    runs: int = 1
    """How often it is run when nothing else is said, each time with another seed."""


Drills = Mapping[str, Drill]


def drills() -> Drills:
    """Every drill by its name. gRPC is loaded here, once it has been told that we start processes
    all the time and that none of them goes on with its connections."""
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    from tests.reliability import (
        drill_boundaries,
        drill_edge,
        drill_histories,
        drill_kills,
        drill_leaks,
        drill_node_loss,
        drill_nodes,
        drill_notify,
        drill_ports,
        drill_rush,
        drill_store,
    )

    return {
        "kills": Drill(drill_kills.on_sqlite, runs=25),
        "kills-postgresql": Drill(drill_kills.on_postgresql, runs=25),
        "kills-many": Drill(drill_kills.many),
        "histories": Drill(drill_histories.on_sqlite, runs=40),
        "histories-postgresql": Drill(drill_histories.on_postgresql, runs=40),
        "nodes": Drill(drill_nodes.on_sqlite, runs=3),
        "nodes-postgresql": Drill(drill_nodes.on_postgresql, runs=3),
        "node-loss": Drill(drill_node_loss.on_sqlite, runs=3),
        "node-loss-postgresql": Drill(drill_node_loss.on_postgresql, runs=3),
        "rush": Drill(drill_rush.on_sqlite),
        "rush-postgresql": Drill(drill_rush.on_postgresql),
        "edge": Drill(drill_edge.on_sqlite, runs=10),
        "edge-postgresql": Drill(drill_edge.on_postgresql, runs=10),
        "leaks": Drill(drill_leaks.on_sqlite),
        "leaks-postgresql": Drill(drill_leaks.on_postgresql),
        "notify": Drill(drill_notify.notify),
        "partitions": Drill(drill_notify.partitions),
        "ports": Drill(drill_ports.on_sqlite),
        "ports-postgresql": Drill(drill_ports.on_postgresql),
        "R01": Drill(drill_boundaries.drill),
        "R04": Drill(drill_store.postgres_killed),
        "R05": Drill(drill_store.api_killed),
        "R06": Drill(drill_store.same_request),
    }


async def run(chosen: Drills, seed: int, runs: int) -> list[Outcome]:
    """Run these drills, one after the other."""
    return [
        await once(name, drill, seed + number)
        for name, drill in chosen.items()
        for number in range(runs or drill.runs)
    ]


async def once(name: str, drill: Drill, seed: int) -> Outcome:
    """One run. One that cannot go on is broken."""
    say(f"{name}: seed {seed}")
    began = monotonic()
    try:
        outcome = await drill.run(seed)
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(name, {"seed": seed}, [f"{type(error).__name__}: {error}"])
    outcome.figures["whole_seconds"] = round(monotonic() - began, 1)
    print(outcome.line, flush=True)
    return outcome


async def until_told(work: Coroutine[Any, Any, list[Outcome]]) -> list[Outcome]:
    """Do it. SIGTERM is heard like Ctrl-C, so that nothing we started is left behind."""
    task = asyncio.create_task(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def summary(outcomes: list[Outcome]) -> str:
    lines = [f"{'drill':20} {'runs':>5} {'seconds':>8} {'kills':>6}  promises"]
    for drill, alike in groupby(outcomes, lambda outcome: outcome.drill):
        lines += _summed(drill, list(alike))
    return "\n".join(lines)


def _summed(drill: str, runs: Sequence[Outcome]) -> list[str]:
    seconds = sum(run.figures["whole_seconds"] for run in runs)
    kills = sum(sum(run.figures.get("kills", {}).values()) for run in runs)
    broken = [f"    seed {run.figures['seed']}: {text}" for run in runs for text in run.broken]
    verdict = f"{len(broken)} BROKEN" if broken else "kept"
    return [f"{drill:20} {len(runs):5} {seconds:8.1f} {kills:6}  {verdict}", *broken]


def main() -> int:
    warnings_only = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(
        wrapper_class=warnings_only, logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    there = drills()
    parser = argparse.ArgumentParser(prog="python -m tests.reliability")
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=", ".join(there))
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--runs", type=int, default=0, help="of each; as many as it wants if 0")
    given = parser.parse_args()
    unknown = [name for name in given.drills if name not in there]
    if unknown:
        parser.error(f"no such drill: {', '.join(unknown)}; there are {', '.join(there)}")
    chosen = {name: there[name] for name in given.drills or there}
    try:
        outcomes = asyncio.run(until_told(run(chosen, given.seed, given.runs)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 130
    say(summary(outcomes))
    return 1 if any(outcome.broken for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
