"""`make fuzz`: throws cases at the doors of a server, and says what came of it.

python -m tests.fuzz [--cases 200000] [--seed 0] [--seconds 1800]

Ends with 1 if a call was answered with INTERNAL, UNKNOWN or a 5xx that has no reason of those in
`tests/fuzz/verdict.py`, or not at all, or if a secret that was sent is in an answer or in the log.
What was not thrown within the time is said."""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import monotonic

import httpx2
import uvloop

from tests.api.closed import closed
from tests.fuzz.hostile import Hostile

ROUND = 2000


async def thrown(cases: int, seed: int, seconds: float) -> int:
    began, done, bugs = monotonic(), 0, []
    answers: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            closed(Path(folder)) as server,
            httpx2.AsyncClient(base_url=server.http, trust_env=False, timeout=30) as http,
        ):
            while done < cases and monotonic() - began < seconds:
                hostile = Hostile(server, http, seed + done)
                await hostile.attack(min(ROUND, cases - done))
                done += min(ROUND, cases - done)
                bugs += hostile.bugs
                for answer, count in hostile.answers.items():
                    answers[answer] = answers.get(answer, 0) + count
                print(f"{done} cases, {len(bugs)} bugs", file=sys.stderr)
    said = {
        "cases": done,
        "left_out": cases - done,
        "seconds": round(monotonic() - began),
        "bugs": bugs[:50],
        "answers": dict(sorted(answers.items())),
    }
    print(json.dumps(said, indent=2))
    return 1 if bugs else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    given = parser.parse_args()
    return uvloop.run(thrown(given.cases, given.seed, given.seconds))


if __name__ == "__main__":
    sys.exit(main())
