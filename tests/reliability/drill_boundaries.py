"""A worker that dies at every boundary of every step: before its effect, after it, and after it
was written down but not reported.

Every boundary gets a cluster of its own. All of them go on until each waits at its boundary; then
the worker dies, once for all of them, and another has to make sense of what it finds. There are
four such deaths: in creates, in the undo of creates that were called off, in changes of pools, and
in deletes."""

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, NamedTuple

from domain.cluster import ClusterPlan
from domain.operation import Kind, OperationId, StepKey
from domain.outline import keys, outline
from store.engine import Database
from store.operations import Operations
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome, say
from tests.reliability.users import Ending, Users
from tests.reliability.verdict import judged, nodes_missing, read, sizes_wrong
from tests.support.load import limit

EDGES = ("before", "after", "written")
BOOK_EDGES = ("before", "after")
"""A book is written down by itself."""

MACHINES = 240
ARRIVE_SECONDS = 150.0
OPERATION_SECONDS = 300.0


class Order(NamedTuple):
    """A cluster, the operation on it that was accepted last, and what that was accepted to do."""

    name: str
    operation: str
    plan: ClusterPlan


async def drill(seed: int) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("temporal", "site", "api", machines=MACHINES, draw=draw) as there:
        users, database = Users(there.grpc), Database(there.database, connections=2)
        try:
            run = Run(there, users, database)
            await run.creates_and_undos()
            await run.changes()
            await run.deletes()
            return run.outcome(seed)
        finally:
            await database.close()
            await users.close()


class Run:
    """One run of the drill."""

    def __init__(self, installation: Installation, users: Users, database: Database) -> None:
        self._installation, self._users, self._database = installation, users, database
        self._began = monotonic()
        self._found: list[str] = []
        self._endings: dict[str, Ending] = {}
        self._boundaries = {"create": 0, "undo": 0, "change": 0, "delete": 0}
        self._deaths = 0
        self._orders: list[Order] = []
        self._building: list[Order] = []
        """Those of them that are not called off."""

    async def creates_and_undos(self) -> None:
        """Half of the undo's boundaries are only reached by a create that is nearly done, so that
        is where those that are to be called off wait for the first death."""
        first = await self._create(0)
        creating, undoing = in_create(first.plan), in_undo(first.plan)
        wanted = range(1, len(creating) + len(undoing))
        self._orders = [first, *await asyncio.gather(*map(self._create, wanted))]
        building, doomed = self._orders[: len(creating)], self._orders[len(creating) :]
        self._building = building
        watching = self._watch("create", building, "SUCCEEDED")
        calling_off = self._watch("create", doomed, "CANCELLED")
        plan = {one.operation: in_create(one.plan)[i] for i, one in enumerate(building)}
        plan |= {one.operation: last_of_create(one.plan) for one in doomed}
        await self._die("create", plan)
        await asyncio.gather(*(self._users.cancel(one.operation) for one in doomed))
        plan = {one.operation: in_undo(one.plan)[i] for i, one in enumerate(doomed)}
        await self._die("undo", plan)
        await self._installation.start("worker-1")
        await asyncio.gather(watching, calling_off)
        await self._judge("after the creates")
        staying = {order.name for order in building}
        self._found += nodes_missing(await read(self._database), staying)

    async def changes(self) -> None:
        """Half of the clusters get a worker more, the others lose the one they have."""
        await self._installation.programs["worker-1"].stop()
        half = len(self._building) // 2
        sizes = {order.name: 2 if n < half else 0 for n, order in enumerate(self._building)}
        changing = list(await asyncio.gather(*(self._scale(*size) for size in sizes.items())))
        watching = self._watch("change", changing, "SUCCEEDED")
        plan = {
            one.operation: boundary
            for alike in (changing[:half], changing[half:])
            for one, boundary in _each_at_its_own(alike, in_change)
        }
        await self._die("change", plan)
        await self._installation.start("worker-1")
        await watching
        await self._judge("after the changes")
        rows, wanted = await read(self._database), {name: {"w": sizes[name]} for name in sizes}
        self._found += [*nodes_missing(rows, set(sizes)), *sizes_wrong(rows, wanted)]

    async def deletes(self) -> None:
        await self._installation.programs["worker-1"].stop()
        deleting = list(await asyncio.gather(*map(self._delete, self._orders)))
        watching = self._watch("delete", deleting, "SUCCEEDED")
        plan = {one.operation: boundary for one, boundary in _each_at_its_own(deleting, in_delete)}
        await self._die("delete", plan)
        await self._installation.start("worker-1")
        await watching
        await self._judge("after the deletes")

    async def _create(self, number: int) -> Order:
        name = f"c{number:02}"
        return await self._ordered(name, (await self._users.create(name)).operation)

    async def _delete(self, order: Order) -> Order:
        return await self._ordered(order.name, (await self._users.delete(order.name)).operation)

    async def _scale(self, name: str, size: int) -> Order:
        return await self._ordered(name, (await self._users.scale(name, "w", size)).operation)

    async def _ordered(self, name: str, operation: str) -> Order:
        plan = await Operations(self._database).plan(OperationId(operation))
        return Order(name, operation, plan)

    async def _die(self, what: str, plan: dict[str, str]) -> None:
        """Let a worker run until every operation of the plan is at its boundary, and is dead."""
        self._deaths += 1
        folder = self._installation.folder / f"death-{self._deaths}"
        folder.mkdir()
        (folder / "plan.json").write_text(json.dumps(plan))
        worker = await self._installation.start_dying_worker(folder)
        try:
            async with limit(ARRIVE_SECONDS):
                await worker.ended()
        except TimeoutError:
            await worker.stop()
        arrived = dict(line.split(" ", 1) for line in (folder / "arrived").read_text().splitlines())
        self._boundaries[what] += len(arrived)
        self._found += [f"never reached: {plan[one]}" for one in plan.keys() - arrived.keys()]
        say(f"  {monotonic() - self._began:5.1f} s  {len(arrived)} at their boundary of {what}")

    def _watch(self, what: str, orders: list[Order], stage: str) -> "asyncio.Task[None]":
        """Follow all of these to their end, which is to be as expected."""

        async def follow(order: Order) -> None:
            try:
                ending = await self._users.watch(order.operation, seconds=OPERATION_SECONDS)
            except TimeoutError:
                self._found.append(f"{what} {order.name} has not ended (op {order.operation})")
                return
            self._endings[f"{what} {order.name}"] = ending
            if ending.stage != stage:
                self._found.append(f"{what} {order.name}: {ending.stage}: {ending.note}")

        async def follow_all() -> None:
            await asyncio.gather(*map(follow, orders))

        return asyncio.create_task(follow_all())

    async def _judge(self, when: str) -> None:
        verdict = await judged(self._installation)
        self._found += [
            f"{when}, {kind}: {text}" for kind, texts in verdict._asdict().items() for text in texts
        ]

    def outcome(self, seed: int) -> Outcome:
        longest = max(self._endings, key=lambda what: self._endings[what].seconds, default="")
        figures: dict[str, Any] = {
            "seed": seed,
            "seconds": round(monotonic() - self._began, 1),
            "boundaries": self._boundaries,
            "kills": {"worker-1": self._deaths},
            "operations": len(self._endings),
            "longest": {"what": longest, "seconds": self._endings[longest].seconds},
            "allocations": self._installation.chronicle.allocations,
            "kubeadm_runs": len(self._installation.chronicle.runs),
        }
        found = self._found + self._installation.fallen() + self._users.gaps
        self._installation.keeps_logs = bool(found)
        return Outcome("R01", figures, found)


def in_create(plan: ClusterPlan) -> list[str]:
    """Every boundary of creating this cluster."""
    books = ("progress.begin", "progress.record midway", "progress.record last")
    return at(EDGES, keys(outline(Kind.CREATE_CLUSTER, plan))) + at(BOOK_EDGES, books)


def last_of_create(plan: ClusterPlan) -> str:
    """The last boundary at which a create can still be called off."""
    return f"before {keys(outline(Kind.CREATE_CLUSTER, plan))[-1]}"


def in_undo(plan: ClusterPlan) -> list[str]:
    steps = [
        *(StepKey(verb="kubeadm.reset", subject=slot.name, undo=True) for slot in plan.slots),
        *(StepKey(verb="machines.release", subject=slot.name, undo=True) for slot in plan.slots),
        StepKey(verb="endpoints.remove", subject=plan.endpoint, undo=True),
    ]
    return at(EDGES, steps) + at(BOOK_EDGES, ("progress.record last",))


def in_delete(plan: ClusterPlan) -> list[str]:
    books = ("progress.begin", "progress.record last")
    return at(EDGES, keys(outline(Kind.DELETE_CLUSTER, plan))) + at(BOOK_EDGES, books)


def in_change(plan: ClusterPlan) -> list[str]:
    books = ("progress.begin", "progress.record last")
    return at(EDGES, keys(outline(Kind.SCALE_NODE_POOL, plan))) + at(BOOK_EDGES, books)


def _each_at_its_own(
    orders: list[Order], boundaries: Callable[[ClusterPlan], list[str]]
) -> Iterator[tuple[Order, str]]:
    """The first order at its first boundary, the second at its second, until there are no more:
    all of these are alike."""
    for number, order in enumerate(orders[: len(boundaries(orders[0].plan))]):
        yield order, boundaries(order.plan)[number]


def at(edges: Iterable[str], steps: Iterable[object]) -> list[str]:
    return [f"{edge} {step}" for step in steps for edge in edges]
