"""SIGKILL of any process at any moment, while clusters are created, changed, upgraded and deleted.

Users go on as if nothing happened; at the end everything that was accepted has ended, and nothing
is left of it that should not be."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple

from domain.releases import CATALOGUE
from store.engine import Database
from tests.reliability.changes import Change, Pools, drawn, upgrade
from tests.reliability.installation import EVERYTHING, Installation, installed
from tests.reliability.outcome import Outcome, say
from tests.reliability.users import Ending, Users
from tests.reliability.verdict import (
    judged,
    nodes_missing,
    read,
    settled,
    sizes_wrong,
    versions_wrong,
)

PAUSE_SECONDS = (0.3, 2.2)
"""Between one kill and the next."""

KILLING_SECONDS = (5.0, 15.0)
"""For how long processes are killed in each part, at most: then what is left must end. Drawn, so
that some operations never see a calm moment and others are just begun when it comes."""

OPERATION_SECONDS = 240.0

FIRST, NEXT, BEYOND = CATALOGUE.default, "1.33.0", "1.34.1"
"""The version of every cluster, the one they are brought to once they stand, and the one some are
on their way to when they are deleted."""

CHANGES = 2
"""Of every cluster that stays, one after the other."""

MACHINES_EACH = 7
"""What the largest cluster may have: three control planes and its workers."""

KINDS = ("leaked", "doubled", "rerun", "replaced", "untrue")


async def on_sqlite(seed: int) -> Outcome:
    return await drill("kills", seed, clusters=8, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("kills-postgresql", seed, clusters=8, postgres=True)


async def many(seed: int) -> Outcome:
    return await drill("kills-many", seed, clusters=20, postgres=False)


async def drill(name: str, seed: int, *, clusters: int, postgres: bool) -> Outcome:
    """As many creates and deletes as there are clusters; two in five are deleted while they may
    still be being created. The others are changed once they run, upgraded, and deleted then."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    began = monotonic()
    async with installed(
        *EVERYTHING, machines=clusters * MACHINES_EACH, draw=draw, postgres=postgres
    ) as installation:
        users = Users(installation.grpc)
        say(f"{name}: everything is up after {monotonic() - began:.1f} s")
        try:
            run = Run(installation, users, draw, clusters)
            await run.creates()
            await run.changes()
            await run.upgrades()
            await run.deletes()
            return run.outcome(name, seed)
        finally:
            await users.close()


class Wish(NamedTuple):
    """What a user is going to do, in seconds from the beginning of each part."""

    name: str
    control_planes: int
    create_after: float
    delete_after: float
    hasty: bool
    """Whether the delete comes while the create may still be running, so long after it."""
    changes: list[Change]
    """One after the other, and at last the upgrade; all of them are seen through."""
    cancel_after: list[float | None]
    """So long after each change somebody changes their mind, and then back again."""
    last: Change | None
    """What the delete runs over."""

    @classmethod
    def drawn(cls, name: str, draw: random.Random, *, hasty: bool) -> "Wish":
        control_planes = 3 if draw.random() < 0.1 else 1
        *changes, last = drawn(name, {"w": 1}, CHANGES + 1, draw)
        wanted = changes[-1].wanted
        changes.append(upgrade(name, wanted, NEXT))
        cancels = [draw.uniform(0, 3) if draw.random() < 0.3 else None for _ in changes]
        after = draw.uniform(0, 8), draw.uniform(0, 12)
        run_over = draw.choice((None, last, upgrade(name, wanted, BEYOND)))
        return cls(name, control_planes, *after, hasty, changes, cancels, run_over)

    @property
    def wanted(self) -> Pools:
        """The cluster's pools once its changes are through."""
        return self.changes[-1].wanted


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
        self._kills_met: list[int] = []
        """By every upgrade that nobody called off, from when it was asked for to its end."""

    async def creates(self) -> None:
        """Create all clusters; change our minds about some of them before they are done."""
        async with killing(self._installation, self._draw):
            await asyncio.gather(*map(self._create, self._wishes))
        await self._judge("after the creates")
        await self._compare("after the creates", {wish.name: {"w": 1} for wish in self._staying})

    async def changes(self) -> None:
        """Let the clusters grow and shrink. What was called off is asked for again."""
        async with killing(self._installation, self._draw):
            await asyncio.gather(*map(self._change, self._staying))
        await self._judge("after the changes")
        await self._compare("after the changes", {one.name: one.wanted for one in self._staying})

    async def upgrades(self) -> None:
        """Bring the clusters to the next version. Nobody asks again for what was only killed."""
        async with killing(self._installation, self._draw):
            await asyncio.gather(*map(self._upgrade, self._staying))
        await self._judge("after the upgrades")
        wanted = {one.name: one.wanted for one in self._staying}
        await self._compare("after the upgrades", wanted, NEXT)

    async def deletes(self) -> None:
        """Delete what is left, some of it while it is being changed or upgraded."""
        async with killing(self._installation, self._draw):
            await asyncio.gather(*map(self._change_and_delete, self._staying))
        await self._judge("after the deletes")

    @property
    def _staying(self) -> list[Wish]:
        return [wish for wish in self._wishes if not wish.hasty]

    async def _compare(self, when: str, wanted: Mapping[str, Pools], version: str = FIRST) -> None:
        database = Database(self._installation.database, connections=1)

        async def look() -> tuple[bool, list[str]]:
            rows = await read(database)
            found = [
                *nodes_missing(rows, set(wanted)),
                *sizes_wrong(rows, wanted),
                *versions_wrong(rows, dict.fromkeys(wanted, version)),
            ]
            return not found, found

        try:  # a look at a site that was just starting makes a cluster DEGRADED until the next one
            found = await settled(look)
        finally:
            await database.close()
        self._add("not as ordered", [f"{when}: {text}" for text in found])

    async def _create(self, wish: Wish) -> None:
        await asyncio.sleep(wish.create_after)
        created = await self._users.create(wish.name, control_planes=wish.control_planes)
        good = {"SUCCEEDED", "SUPERSEDED"} if wish.hasty else {"SUCCEEDED"}
        watching = asyncio.create_task(self._watch(created.operation, f"create {wish.name}", good))
        if wish.hasty:
            await self._delete(wish)
        await watching

    async def _change(self, wish: Wish) -> None:
        await asyncio.sleep(wish.create_after / 2)
        for change, cancel_after in zip(wish.changes[:-1], wish.cancel_after[:-1], strict=True):
            await self._see_through(change, cancel_after)

    async def _upgrade(self, wish: Wish) -> None:
        await asyncio.sleep(wish.create_after / 2)
        before = self._kills
        await self._see_through(wish.changes[-1], wish.cancel_after[-1])
        if wish.cancel_after[-1] is None:
            self._kills_met.append(self._kills - before)

    async def _see_through(self, change: Change, cancel_after: float | None) -> None:
        asked = await change.ask(self._users)
        good = {"SUCCEEDED"} if cancel_after is None else {"SUCCEEDED", "CANCELLED"}
        watching = asyncio.create_task(self._watch(asked.operation, change.what, good))
        if cancel_after is not None:
            await asyncio.sleep(cancel_after)
            await self._users.cancel(asked.operation)
        await watching
        if cancel_after is not None:
            asked = await change.again(self._users)
            if asked.operation:
                await self._watch(asked.operation, f"again {change.what}", {"SUCCEEDED"})

    async def _change_and_delete(self, wish: Wish) -> None:
        if wish.last is None:
            await self._delete(wish)
            return
        asked = await wish.last.ask(self._users)
        watching = self._watch(asked.operation, wish.last.what, {"SUCCEEDED", "SUPERSEDED"})
        await asyncio.gather(watching, self._delete(wish))

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

    @property
    def _kills(self) -> int:
        return sum(program.kills for program in self._installation.programs.values())

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
            "upgrades": {"asked_once": len(self._kills_met), "kills_met": sorted(self._kills_met)},
            "allocations": chronicle.allocations,
            "kubeadm_runs": len(chronicle.runs),
            "refusals": dict(self._users.refusals),
            **{kind: len(found.get(kind, [])) for kind in KINDS},
            "orphan_rows": len(found.get("orphans", [])),
            "endless_looks": self._installation.said("a look did not end"),
        }
        broken = [f"{kind}: {text}" for kind, texts in found.items() for text in texts]
        self._installation.keeps_logs = bool(broken or figures["endless_looks"])
        return Outcome(name, figures, broken)


@asynccontextmanager
async def killing(installation: Installation, draw: random.Random) -> AsyncIterator[None]:
    """Kill one process after the other, whatever is going on, until the block ends or the time
    for that is over. At the end everything runs again."""
    over = asyncio.Event()

    async def kill() -> None:
        until = monotonic() + draw.uniform(*KILLING_SECONDS)
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
