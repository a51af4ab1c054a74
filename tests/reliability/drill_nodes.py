"""Instances are made, stopped and unmade while everything that serves them is killed: the API, the
worker, Temporal, the database and the nodes' agents, with what they run or without.

Once it is quiet each instance that is to run has exactly one copy, and nothing else runs."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from time import monotonic

import grpc
import grpc.aio
from sqlalchemy.exc import DBAPIError

from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from store.engine import Database
from tests.reliability.fleet import Fleet, ordered
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome
from tests.reliability.roster import Roster, contradictions, read

INSTANCES = 500
AT_ONCE = 25
NODES = ("n0", "n1", "n2")
PATIENT = 0.5
"""The share of instances that are let come to run before anything else is asked of them."""

KEPT = 0.2
"""The share of instances that nobody destroys."""

PAUSE_SECONDS = 0.5
BETWEEN_KILLS = (2.0, 6.0)
LOOK_SECONDS = 0.2
SETTLE_SECONDS = 180.0
"""What a killed worker's hands take to be found dead, and what was missed to be swept up."""

STAND_SECONDS = 3.0
"""So long nothing may be wrong before it counts as settled."""

MOST_TOLD = 20

AWAY_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)


async def on_sqlite(seed: int) -> Outcome:
    return await drill("nodes", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("nodes-postgresql", seed, postgres=True)


async def drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    programs = ("temporal", "site", "api", "worker-1")
    async with installed(*programs, machines=1, draw=draw, postgres=postgres) as there:
        fleet = Fleet(there, NODES, draw)
        fire = Fire(there, fleet, draw)
        try:
            left = await fire.burn()
        finally:
            await fleet.close()
            await fire.close()
        left += there.fallen()
        there.keeps_logs = bool(left)
        return Outcome(name, {"seed": seed, **fire.figures()}, left)


class Fire:
    """One run of the drill."""

    def __init__(self, there: Installation, fleet: Fleet, draw: random.Random) -> None:
        self._there, self._fleet, self._draw = there, fleet, draw
        self._database = Database(there.database, connections=1)
        self._victims = [name for name in there.programs if name != "site"]
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asked: Counter[str] = Counter()
        self._again: Counter[str] = Counter()
        self._whole: Counter[str] = Counter()
        self._twice: set[str] = set()
        self._overlapped: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._seconds: dict[str, float] = {}
        self._running = 0

    async def close(self) -> None:
        await self._database.close()

    async def burn(self) -> list[str]:
        """Everything that is not as promised in the end."""
        for node in NODES:
            await self._fleet.start(node)
        began = monotonic()
        watching = asyncio.create_task(self._watch())
        killing = asyncio.create_task(self._kill())
        try:
            async with grpc.aio.insecure_channel(self._there.grpc) as channel:
                stub = InstanceServiceStub(channel)
                await asyncio.gather(*(self._live(stub, f"web-{n}") for n in range(INSTANCES)))
            self._seconds["served"] = monotonic() - began
        finally:
            killing.cancel()
            await asyncio.wait([killing])
        began = monotonic()
        left = await self._settled()
        self._seconds["settled"] = monotonic() - began
        watching.cancel()
        await asyncio.wait([watching])
        if not self._seen:
            left.append("nothing ever ran")
        return [*left, *(f"{id} ran twice at once" for id in sorted(self._twice))]

    def figures(self) -> dict[str, object]:
        programs = {**self._there.programs, **self._fleet.programs}
        return {
            "instances": INSTANCES,
            "asked": dict(self._asked),
            "asked_again": dict(self._again),
            "copies": len(self._seen),
            "running": self._running,
            "ran_beside_a_copy_given_up": len(self._overlapped),
            "kills": {name: program.kills for name, program in programs.items() if program.kills},
            "with_all_that_ran": dict(self._whole),
            **{f"{name}_seconds": round(seconds, 1) for name, seconds in self._seconds.items()},
        }

    async def _live(self, stub: InstanceServiceStub, id: str) -> None:
        """Made, perhaps stopped and started, and in most cases unmade, whoever is there to hear
        it."""
        async with self._places:
            policy = self._draw.choice(["never", "on-failure", "always"])
            patient = self._draw.random() < PATIENT
            created = lambda: self._created(stub, ordered(id), policy, patient=patient)  # noqa: E731
            await self._insist("Create", created)
            for call in self._draw.choice([(), ("Stop",), ("Stop", "Start")]):
                await asyncio.sleep(self._draw.uniform(0, 5))
                await self._insist(call, lambda call=call: self._told(stub, call, id))
            await asyncio.sleep(self._draw.uniform(0, 5))
            if self._draw.random() >= KEPT:
                await self._insist("Destroy", lambda: self._told(stub, "Destroy", id))

    async def _created(
        self, stub: InstanceServiceStub, wanted: pb.Instance, policy: str, *, patient: bool
    ) -> None:
        """Accepted; or, for those with patience, running, if it does so while somebody listens."""
        beside = (("x-request-id", wanted.id), ("windlass-restart", policy))
        stream = stub.Create(wanted, metadata=beside, timeout=10)
        await stream.read()
        with suppress(grpc.aio.AioRpcError):
            while patient and (status := await stream.read()) is not grpc.aio.EOF:
                if isinstance(status, pb.InstanceStatus) and status.status == pb.RUNNING:
                    break
        stream.cancel()

    async def _told(self, stub: InstanceServiceStub, call: str, id: str) -> None:
        await getattr(stub, call)(pb.InstanceIdentifier(id=id), timeout=10)

    async def _insist(self, name: str, ask: object) -> None:
        """Ask until there is an answer. What its state forbids is an answer, too."""
        self._asked[name] += 1
        while True:
            try:
                await ask()  # type: ignore[operator]
                return
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    return
                if error.code() not in AWAY_CODES:
                    raise
            self._again[name] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _kill(self) -> None:
        """One after the other, without waiting until the last one is back."""
        while True:
            await asyncio.sleep(self._draw.uniform(*BETWEEN_KILLS))
            victim = self._draw.choice([*self._victims, *NODES])
            if victim not in NODES:
                await self._there.programs[victim].kill()
                continue
            whole = self._draw.random() < 0.5
            self._whole[victim] += whole
            await self._fleet.kill(victim, whole=whole)

    async def _watch(self) -> None:
        """Whether an instance ever runs twice. It may while one of the copies was given up, since
        its node could not be asked, and is going to be removed. What is seen once may have been
        about to end."""
        before: set[tuple[str, str]] = set()
        while True:
            running = {(one.instance, one.node) for one in self._fleet.running()}
            self._seen |= running
            counts = Counter(id for id, _ in running)
            copies = {copy for copy in running if counts[copy[0]] > 1}
            if copies and (roster := await self._read()):
                self._overlapped |= {id for id, _ in copies}
                own = {(place.instance, place.node) for place in roster.places if not place.left}
                given_up = {(place.instance, place.node) for place in roster.places if place.left}
                loose = copies - own - given_up
                self._twice |= {id for id, _ in loose & before}
                before = loose
            await asyncio.sleep(LOOK_SECONDS)

    async def _settled(self) -> list[str]:
        """What is wrong once that does not change any more."""
        deadline, right_since = monotonic() + SETTLE_SECONDS, 0.0
        left = ["the database was not there again"]
        while monotonic() < deadline:
            if roster := await self._read():
                running = self._fleet.running()
                left, self._running = contradictions(roster, running), len(running)
                right_since = 0.0 if left else right_since or monotonic()
                if right_since and monotonic() - right_since > STAND_SECONDS:
                    return []
            await asyncio.sleep(LOOK_SECONDS)
        return left[:MOST_TOLD] or ["it did not stay right"]

    async def _read(self) -> Roster | None:
        """None: the database is dead at the moment."""
        try:
            return await read(self._database)
        except (DBAPIError, OSError):
            return None
