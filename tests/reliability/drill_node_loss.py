"""A machine with fifty instances dies: they run elsewhere soon, and its return changes nothing.

Then a node only falls silent. Its instances run elsewhere as well, twice for a while, and once
again as soon as it is heard of. At last one is told to go while nobody hears it, and is back soon:
what it has stopped runs again."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable
from time import monotonic

import grpc.aio

from domain.node import NodePhase
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from store.engine import Database
from tests.reliability.fleet import Fleet, ordered
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome
from tests.reliability.program import DrillError
from tests.reliability.roster import Roster, contradictions, read

INSTANCES = 50
REPLACED_SECONDS = 20.0
"""From the death of a node until all that it ran runs elsewhere, with the lease as it comes."""

LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 120.0
MOST_TOLD = 10


async def on_sqlite(seed: int) -> Outcome:
    return await drill("node-loss", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("node-loss-postgresql", seed, postgres=True)


async def drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    programs = ("temporal", "site", "api", "worker-1")
    async with installed(*programs, machines=1, draw=draw, postgres=postgres) as there:
        fleet = Fleet(there, ("n0", "n1", "n2"), draw)
        loss = Loss(there, fleet)
        try:
            await loss.run()
        finally:
            await fleet.close()
        there.keeps_logs = bool(loss.broken)
        return Outcome(name, {"seed": seed, "instances": INSTANCES, **loss.figures}, loss.broken)


class Loss:
    """One run of the drill."""

    def __init__(self, there: Installation, fleet: Fleet) -> None:
        self._there, self._fleet = there, fleet
        self._database = Database(there.database, connections=1)
        self.figures: dict[str, float] = {}
        self.broken: list[str] = []

    async def run(self) -> None:
        first, second, third = self._fleet.nodes
        try:
            await self._fleet.start(first, restarts=False)
            await self._until("the first node is there", lambda roster: _lives(roster, first))
            await self._create()
            for node in (second, third):
                await self._fleet.start(node)
            await self._until("the others are there", lambda roster: _lives(roster, second, third))
            await self._die(first)
            await self._fall_silent(second)
            await self._go_unheard(third)
        finally:
            await self._database.close()

    async def _die(self, node: str) -> None:
        began = monotonic()
        await self._fleet.kill(node, whole=True)
        await self._replaced("loss", node, began)
        await self._fleet.start(node)
        await self._one_each("return")

    async def _fall_silent(self, node: str) -> None:
        """What it carries runs on meanwhile, and nobody can tell it not to."""
        agent, began = self._fleet.programs[node], monotonic()
        agent.signal(signal.SIGSTOP)
        try:
            await self._replaced("silence", node, began)
            copies = Counter(one.instance for one in self._fleet.running())
            self.figures["ran_twice"] = sum(count > 1 for count in copies.values())
        finally:
            agent.signal(signal.SIGCONT)
        await self._one_each("reappearance")

    async def _go_unheard(self, node: str) -> None:
        """It is killed before it can say that all it carried is stopped."""
        api = self._there.programs["api"]
        api.signal(signal.SIGSTOP)
        try:
            self._fleet.programs[node].signal(signal.SIGTERM)
            await self._until(
                f"{node} has stopped what it carried",
                lambda _: all(one.node != node for one in self._fleet.running()),
            )
            await self._fleet.kill(node, whole=False)
        finally:
            api.signal(signal.SIGCONT)
        await self._one_each("unheard_farewell")

    async def _create(self) -> None:
        began = monotonic()
        async with grpc.aio.insecure_channel(self._there.grpc) as channel:
            stub = InstanceServiceStub(channel)
            for number in range(INSTANCES):
                beside = (("x-request-id", f"web-{number}"), ("windlass-restart", "always"))
                stream = stub.Create(ordered(f"web-{number}"), metadata=beside, timeout=30)
                await stream.read()
                stream.cancel()
        await self._until("all run", lambda roster: len(roster.running_elsewhere("")) == INSTANCES)
        self.figures["create_seconds"] = _since(began)

    async def _replaced(self, name: str, node: str, began: float) -> None:
        """How long it takes until all that was on a node runs elsewhere, in our rows and among the
        processes of this machine."""

        def elsewhere(roster: Roster) -> bool:
            if roster.nodes[node] is NodePhase.LOST:
                self.figures.setdefault(f"{name}_noticed_seconds", _since(began))
            really = {one.instance for one in self._fleet.running() if one.node != node}
            return len(really & roster.running_elsewhere(node)) == INSTANCES

        before = self._worked(node)
        await self._until(f"all that {node} ran runs elsewhere", elsewhere)
        self.figures[f"{name}_seconds"] = took = _since(began)
        for program, seconds in self._worked(node).items():
            self.figures[f"{name}_cpu_{program}"] = round(seconds - before[program], 1)
        if took > REPLACED_SECONDS:
            self.broken.append(f"{name}: all that {node} ran ran elsewhere after {took} s only")

    def _worked(self, node: str) -> dict[str, float]:
        """What whoever has to do with it has worked so far: how long it takes is a matter of what
        else the machine has to do."""
        programs = {**self._there.programs, **self._fleet.programs}
        return {name: one.cpu_seconds for name, one in programs.items() if name != node}

    async def _one_each(self, name: str) -> None:
        """Exactly one copy of each is left, with its place."""
        began = monotonic()
        await self._until(
            f"there is one copy each after the {name}",
            lambda roster: not contradictions(roster, self._fleet.running()),
        )
        self.figures[f"{name}_seconds"] = _since(began)

    async def _until(self, what: str, so: Callable[[Roster], bool]) -> None:
        deadline = monotonic() + PATIENCE_SECONDS
        while not so(roster := await read(self._database)):
            if monotonic() > deadline:
                left = contradictions(roster, self._fleet.running())[:MOST_TOLD]
                raise DrillError(f"not so after {PATIENCE_SECONDS:g} s: {what}; {left}")
            await asyncio.sleep(LOOK_SECONDS)


def _lives(roster: Roster, *nodes: str) -> bool:
    return all(roster.nodes.get(node) is NodePhase.RUNNING for node in nodes)


def _since(began: float) -> float:
    return round(monotonic() - began, 1)
