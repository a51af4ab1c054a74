"""`python -m tests.conformance [STAGE ...]`: held against what others made.

Each stage fetches and builds what it takes, or says why it cannot; then its tests run. The exit
code is 1 if one failed; a stage that was skipped has proved nothing, and failed nothing."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from tests.conformance import browser, ceph, etcd, kubectl, maas_client, real_kube, ssh_client
from tests.conformance.outcome import Outcome, carried_out, table
from tests.conformance.stage import BUILD, Stage

STAGES: Mapping[str, Stage] = {
    module.STAGE.name: module.STAGE
    for module in (maas_client, ssh_client, kubectl, etcd, real_kube, ceph, browser)
}


async def run(stages: Sequence[Stage]) -> list[Outcome]:
    """One after the other, each with a line as soon as it is through."""
    BUILD.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for stage in stages:
        print(f"{stage.name}: {stage.proves} ...", file=sys.stderr, flush=True)
        outcomes.append(await carried_out(stage))
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    given = parser.parse_args()
    unknown = [name for name in given.stages if name not in STAGES]
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    outcomes = asyncio.run(run([STAGES[name] for name in given.stages or STAGES]))
    print(table(outcomes))
    return 1 if any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
