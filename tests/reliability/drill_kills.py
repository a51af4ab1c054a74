"""SIGKILL of any process at any moment, while clusters are created and deleted.

Users go on as if nothing happened; at the end everything that was accepted has ended, and nothing
is left of it that should not be."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple

from store.engine import Database
from tests.reliability.installation import EVERYTHING, Installation, installed
from tests.reliability.outcome import Outcome, say
from tests.reliability.users import Ending, Users
from tests.reliability.verdict import judged, nodes_missing, read

PAUSE_SECONDS = (0.3, 2.2)
"""Between one kill and the next."""

KILLING_SECONDS = 30.0
"""For how long processes are killed in each half, at most: then what is left must end."""

OPERATION_SECONDS = 240.0

KINDS = ("leaked", "doubled", "rerun", "replaced")


async def on_sqlite(seed: int) -> Outcome:
    return await drill("kills", seed, clusters=20, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("kills-postgresql", seed, clusters=8, postgres=True)


async def drill(name: str, seed: int, *, clusters: int, postgres: bool) -> Outcome:
    """As many creates and deletes as there are clusters; two in five are deleted while they may
    still be being created, the others once they run."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    began = monotonic()
    async with installed(
        *EVERYTHING, machines=clusters * 3, draw=draw, postgres=postgres
    ) as installation:
        users = Users(installation.grpc)
        say(f"{name}: everything is up after {monotonic() - began:.1f} s")
        try:
            run = Run(installation, users, draw, clusters)
            await run.creates()
            await run.deletes()
            return run.outcome(name, seed)
        finally:
            await users.close()


class Wish(NamedTuple):
    """What a user is going to do, in seconds from the beginning of each half."""

    name: str
    control_planes: int
    create_after: float
    delete_after: float
    hasty: bool
    """Whether the delete comes while the create may still be running, so long after it."""

    @classmethod
    def drawn(cls, name: str, draw: random.Random, *, hasty: bool) -> "Wish":
        control_planes = 3 if draw.random() < 0.1 else 1
        return cls(name, control_planes, draw.uniform(0, 8), draw.uniform(0, 12), hasty)


class Run:
    """One run of the drill."""

    def __init__(
        self, installation: Installation, users: Users, draw: random.Random, clusters: int
    ) -> None:
        self._installation, self._users, self._draw = installation, users, draw
        self._began = monotonic()
        names = [f"c{number:02}" for number in range(clusters)]
        hasty = set(draw.sample(names, clusters * 2 // 5))
        self._wishes = [Wish.drawn(name, draw, hasty=name in hasty) for name in names]
        self._endings: dict[str, Ending] = {}
        self._found: dict[str, list[str]] = {}

    async def creates(self) -> None:
        """Create all clusters; change our minds about some of them before they are done."""
        async with killing(self._installation, self._draw):
            await asyncio.gather(*map(self._create, self._wishes))
        await self._judge("after the creates")
        database = Database(self._installation.database, connections=1)
        try:
            rows = await read(database)
        finally:
            await database.close()
        staying = {wish.name for wish in self._wishes if not wish.hasty}
        self._add("not as ordered", nodes_missing(rows, staying))

    async def deletes(self) -> None:
        async with killing(self._installation, self._draw):
            await asyncio.gather(*(self._delete(wish) for wish in self._wishes if not wish.hasty))
        await self._judge("after the deletes")

    async def _create(self, wish: Wish) -> None:
        await asyncio.sleep(wish.create_after)
        created = await self._users.create(wish.name, control_planes=wish.control_planes)
        good = {"SUCCEEDED", "SUPERSEDED"} if wish.hasty else {"SUCCEEDED"}
        watching = asyncio.create_task(self._watch(created.operation, f"create {wish.name}", good))
        if wish.hasty:
            await self._delete(wish)
        await watching

    async def _delete(self, wish: Wish) -> None:
        await asyncio.sleep(wish.delete_after)
        deleted = await self._users.delete(wish.name)
        await self._watch(deleted.operation, f"delete {wish.name}", {"SUCCEEDED"})

    async def _watch(self, operation: str, what: str, good: set[str]) -> None:
        try:
            ending = await self._users.watch(operation, seconds=OPERATION_SECONDS)
        except TimeoutError:
            self._add("not ended", [f"{what} after {OPERATION_SECONDS:g} s (op {operation})"])
            return
        self._endings[what] = ending
        if ending.stage not in good:
            self._add("ended badly", [f"{what}: {ending.stage}: {ending.note}"])

    async def _judge(self, when: str) -> None:
        verdict = await judged(self._installation)
        for kind, texts in verdict._asdict().items():
            self._add(kind, [f"{when}: {text}" for text in texts])

    def _add(self, kind: str, texts: list[str]) -> None:
        self._found.setdefault(kind, []).extend(texts)

    def outcome(self, name: str, seed: int) -> Outcome:
        programs = self._installation.programs
        chronicle, found = self._installation.chronicle, self._found
        self._add("fell", self._installation.fallen())
        self._add("watches with gaps", self._users.gaps)
        longest = max(self._endings, key=lambda what: self._endings[what].seconds, default="")
        figures: dict[str, Any] = {
            "seed": seed,
            "seconds": round(monotonic() - self._began, 1),
            "kills": {one.name: one.kills for one in programs.values()},
            "operations": len(self._endings),
            "longest": {"what": longest, "seconds": self._endings[longest].seconds},
            "allocations": chronicle.allocations,
            "kubeadm_runs": len(chronicle.runs),
            "refusals": dict(self._users.refusals),
            **{kind: len(found.get(kind, [])) for kind in KINDS},
            "orphan_rows": len(found.get("orphans", [])),
        }
        broken = [f"{kind}: {text}" for kind, texts in found.items() for text in texts]
        self._installation.keeps_logs = bool(broken)
        return Outcome(name, figures, broken)


@asynccontextmanager
async def killing(installation: Installation, draw: random.Random) -> AsyncIterator[None]:
    """Kill one process after the other, whatever is going on, until the block ends or the time
    for that is over. At the end everything runs again."""
    over = asyncio.Event()

    async def kill() -> None:
        until = monotonic() + KILLING_SECONDS
        while monotonic() < until and not over.is_set():
            await asyncio.sleep(draw.uniform(*PAUSE_SECONDS))
            await installation.programs[draw.choice(sorted(installation.programs))].kill()
        await asyncio.gather(*(one.wait_ready() for one in installation.programs.values()))

    killer = asyncio.create_task(kill())
    try:
        yield
    finally:
        over.set()
        await killer
