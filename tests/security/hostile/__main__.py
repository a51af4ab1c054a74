"""`make hostile [T="KIND ..."]`: one hostile client against a running server, and an honest one.

The server has a hard limit of 1,024 descriptors. Each attack runs twice, with the honest client at
another address and at the attacker's, and then all of them together. The exit code is 1 if a line
of the table breaks a promise."""

import argparse
import asyncio
import json
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

from store import schema
from store.engine import Database
from tests.api.caller import NOBODY
from tests.api.signed import people
from tests.programs.running import ROOT, surroundings, told
from tests.security.hostile.attacks import KINDS

DESCRIPTORS = 1024
ATTACKER, OTHER = "127.0.0.66", "127.0.0.9"
BEFORE_SECONDS, AFTER_SECONDS = 2.0, 60.0
LEAST_ANSWERED, MOST_SLOWER = 0.95, 10.0
MOST_MORE_MB, MOST_LEFT_MB = 256, 64


class Served(NamedTuple):
    process: Process
    grpc: str
    http: str
    tokens: dict[str, str]


class Line(NamedTuple):
    """What one attack did to the honest client and to the server."""

    kind: str
    where: str
    answered: float
    p99_ms: float
    slower: float
    more_mb: float
    left_mb: float

    @property
    def is_good(self) -> bool:
        calls = self.answered >= LEAST_ANSWERED and self.slower <= MOST_SLOWER
        return calls and self.more_mb <= MOST_MORE_MB and self.left_mb <= MOST_LEFT_MB


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    with TemporaryDirectory(prefix="windlass-hostile-") as folder:
        environment = surroundings(
            WINDLASS_STATE=folder,
            WINDLASS_GRPC_ADDRESS="127.0.0.1:0",
            WINDLASS_HTTP_ADDRESS="127.0.0.1:0",
            WINDLASS_TEMPORAL__ADDRESS=NOBODY,
            WINDLASS_AUTH__MODE="required",
            WINDLASS_LOG_FORMAT="json",
        )
        url = f"sqlite+aiosqlite:///{folder}/windlass.db"
        await schema.upgrade(url)
        database = Database(url)
        tokens = await people(database)
        await database.close()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "api"),
            cwd=ROOT,
            env=environment,
            stderr=PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, DESCRIPTORS)),
        )
        ready = await told(process, "ready")
        reading = asyncio.create_task(_drop(process))
        try:
            yield Served(process, ready["grpc"], ready["http"], tokens)
        finally:
            process.kill()
            await process.wait()
            await reading


async def _drop(process: Process) -> None:
    """Read the log, so that the server never waits for somebody to do so."""
    while process.stderr is not None and await process.stderr.read(65536):
        pass


async def program(name: str, *words: str) -> Process:
    module = f"tests.security.hostile.{name}"
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words), cwd=ROOT, stdout=PIPE
    )


async def honest(server: Served, local: str, seconds: float) -> tuple[float, float]:
    """The share of calls that were answered, and the time of all but one in a hundred, in ms."""
    process = await program("honest", server.grpc, local, str(seconds), server.tokens["vic"])
    out, _ = await process.communicate()
    found = json.loads(out)
    took, failed = sorted(found["took"]), sum(found["failed"].values())
    if not took:
        return 0.0, float("inf")
    return len(took) / (len(took) + failed), took[int(len(took) * 0.99)] * 1000


def memory_mb(server: Served) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (each for each in status.splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def peak_mb(server: Served, until: asyncio.Event) -> float:
    most = 0.0
    while not until.is_set():
        most = max(most, memory_mb(server))
        await asyncio.sleep(0.1)
    return most


async def tried(
    server: Served, kinds: Sequence[str], where: str, quiet: tuple[float, float], seconds: float
) -> Line:
    """Run attacks at once, and the honest client beside them."""
    quiet_ms, quiet_mb = quiet
    lasting = str(seconds + BEFORE_SECONDS + 5)
    words = (server.grpc, server.http, ATTACKER, lasting, server.tokens["dev"])
    attackers = [await program("attacks", kind, *words) for kind in kinds]
    over = asyncio.Event()
    peak = asyncio.create_task(peak_mb(server, over))
    await asyncio.sleep(BEFORE_SECONDS)
    local = ATTACKER if where == "the attacker's" else OTHER
    answered, p99_ms = await honest(server, local, seconds)
    for each in attackers:
        if each.returncode is None:
            each.kill()
        await each.communicate()
    over.set()
    until = monotonic() + AFTER_SECONDS
    left = memory_mb(server) - quiet_mb
    while left > MOST_LEFT_MB and monotonic() < until:
        await asyncio.sleep(0.5)
        left = memory_mb(server) - quiet_mb
    kind = kinds[0] if len(kinds) == 1 else "together"
    more = await peak - quiet_mb
    return Line(kind, where, answered, p99_ms, p99_ms / quiet_ms, more, left)


async def run(kinds: Sequence[str], seconds: float) -> bool:
    async with served() as server:
        await honest(server, OTHER, 2)
        _, quiet_ms = await honest(server, OTHER, seconds)
        quiet = (quiet_ms, memory_mb(server))
        print(f"quiet: p99 {quiet_ms:.1f} ms, {quiet[1]:.0f} MB", flush=True)
        head = ("attack", "honest at", "answered", "p99 ms", "slower", "RSS +MB", "after")
        print("{:<11} {:<15} {:>8} {:>8} {:>7} {:>8} {:>6}".format(*head), flush=True)
        good = True
        rounds = [*([kind] for kind in kinds), *([list(kinds)] if len(kinds) > 1 else [])]
        for chosen in rounds:
            for where in ("another address", "the attacker's"):
                line = await tried(server, chosen, where, quiet, seconds)
                good = good and line.is_good
                print(
                    f"{line.kind:<11} {line.where:<15} {line.answered:>8.1%} {line.p99_ms:>8.1f} "
                    f"{line.slower:>6.1f}x {line.more_mb:>8.0f} {line.left_mb:>6.0f} "
                    f"{'' if line.is_good else ' BROKEN'}",
                    flush=True,
                )
        return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.hostile", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each lasts")
    chosen = parser.parse_args()
    unknown = [kind for kind in chosen.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"there is no attack {unknown[0]}")
    return 0 if asyncio.run(run(chosen.kinds or list(KINDS), chosen.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
