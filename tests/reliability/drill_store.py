"""What is accepted is there, once, whatever dies while it is being accepted.

No worker runs: these drills end where a change is durable and its workflow has started."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
from sqlalchemy import func, select

from store.engine import Database
from store.rows import AnswerRow, ClusterRow, OperationRow
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome
from tests.reliability.program import Program
from tests.reliability.users import Answer, Users, order, refusal
from tests.reliability.verdict import settled
from tests.store.invariants import broken

CREATES = 200
AT_ONCE = 16
KILLS = 5
AT_THE_SAME_TIME = 50

BACK_SECONDS = 10.0
"""Within this a killed database must be back, and we with it."""


async def api_killed(seed: int) -> Outcome:
    """R5: the API dies again and again while clusters are asked for."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("temporal", "api", machines=1, draw=draw) as there:
        return await Acceptance("R05", there, draw, seed).under_fire(there.programs["api"])


async def postgres_killed(seed: int) -> Outcome:
    """R4: the database dies in the middle of commits."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("temporal", "api", machines=1, draw=draw, postgres=True) as there:
        return await Acceptance("R04", there, draw, seed).under_fire(there.programs["postgres"])


async def same_request(seed: int) -> Outcome:
    """R6: one request id from fifty callers at once, with another body, and after a restart."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed("temporal", "api", machines=1, draw=draw) as there:
        return await Acceptance("R06", there, draw, seed).of_one_request()


class Acceptance:
    """One run of one of these drills."""

    def __init__(
        self, name: str, installation: Installation, draw: random.Random, seed: int
    ) -> None:
        self._name, self._installation, self._draw = name, installation, draw
        self._figures: dict[str, Any] = {"seed": seed}
        self._found: list[str] = []
        self._accepted = 0
        self._gave_up: Counter[str] = Counter()

    async def under_fire(self, victim: Program) -> Outcome:
        """Ask for clusters, many at a time, while the victim is killed; then ask again for each."""
        keys = {f"c{number:03}": str(uuid4()) for number in range(CREATES)}
        began = monotonic()
        async with self._users() as users:
            killing = asyncio.create_task(self._kill(victim))
            first = await self._ask_all(users, keys)
            await killing
            self._figures |= {
                "seconds": round(monotonic() - began, 1),
                "creates": len(first),
                "kills": {victim.name: victim.kills},
                "back_seconds": round(max(victim.back_seconds), 2),
                "asked_again": sum(answer.tries - 1 for answer in first.values()),
                "refusals": dict(users.refusals),
            }
            self._expect_only_unavailable(users.refusals)
            if max(victim.back_seconds) > BACK_SECONDS:
                self._found.append(f"{victim.name} was away for {max(victim.back_seconds):.1f} s")
            self._expect_the_same(first, await self._ask_all(users, keys))
        await self._look(sorted(keys))
        return self._outcome()

    async def of_one_request(self) -> Outcome:
        key = str(uuid4())
        async with self._users() as users:
            create, wanted = users.clusters.CreateCluster, order("one", 1, 1)
            asked = (users.insist(create, wanted, key) for _ in range(AT_THE_SAME_TIME))
            answers = await asyncio.gather(*asked)
            await self._refused(
                users, order("one", 1, 2), key, "INVALID_ARGUMENT REQUEST_ID_REUSED"
            )
            await self._refused(users, wanted, str(uuid4()), "ALREADY_EXISTS ALREADY_EXISTS")
            await self._installation.programs["api"].kill_and_wait()
            answers.append(await users.insist(create, wanted, key))
            await self._refused(
                users, order("one", 3, 1), key, "INVALID_ARGUMENT REQUEST_ID_REUSED"
            )
        different = {(answer.operation, answer.reply.SerializeToString()) for answer in answers}
        self._figures["kills"] = {"api": self._installation.programs["api"].kills}
        self._figures |= {"answers": len(answers), "different_answers": len(different)}
        if len(different) != 1:
            self._found.append(f"{len(different)} different answers to one request")
        await self._look(["one"])
        return self._outcome()

    @asynccontextmanager
    async def _users(self) -> AsyncIterator[Users]:
        users = Users(self._installation.grpc)
        try:
            yield users
        finally:
            await users.close()

    async def _ask_all(self, users: Users, keys: dict[str, str]) -> dict[str, Answer]:
        turns, answers = asyncio.Semaphore(AT_ONCE), dict[str, Answer]()

        async def ask(name: str, key: str) -> None:
            async with turns:
                create = users.clusters.CreateCluster
                answers[name] = await users.insist(create, order(name, 1, 1), key)
                self._accepted += 1

        await asyncio.gather(*(ask(name, key) for name, key in keys.items()))
        return answers

    async def _kill(self, victim: Program) -> None:
        """Each time some more has been accepted, so that every death is in the middle."""
        for kill in range(KILLS):
            due = (kill + self._draw.random()) * CREATES / (KILLS + 1)
            while self._accepted < due:  # noqa: ASYNC110 - callers are at work meanwhile
                await asyncio.sleep(0.001)
            await victim.kill_and_wait()

    async def _refused(self, users: Users, request: Any, key: str, wanted: str) -> None:
        try:
            await users.insist(users.clusters.CreateCluster, request, key)
        except grpc.aio.AioRpcError as error:
            if refusal(error) != wanted:
                self._found.append(f"{refusal(error)} instead of {wanted}: {error.details()}")
        else:
            self._found.append(f"answered instead of {wanted}")

    def _expect_only_unavailable(self, refusals: Counter[str]) -> None:
        for what in refusals:
            if not what.startswith("UNAVAILABLE"):
                self._found.append(f"callers were told {what}")

    def _expect_the_same(self, first: dict[str, Answer], again: dict[str, Answer]) -> None:
        for name, answer in first.items():
            if again[name][:2] != answer[:2]:
                self._found.append(f"{name}: {again[name][:2]} after {answer[:2]}")
        operations = {answer.operation for answer in first.values()}
        if len(operations) != len(first) or "" in operations:
            self._found.append(f"{len(operations)} operations for {len(first)} creates")

    async def _look(self, names: list[str]) -> None:
        """Exactly these clusters, with one operation and one workflow each."""
        database = Database(self._installation.database, connections=1)
        try:
            async with database.session(writes=False) as session:
                there = sorted(await session.scalars(select(ClusterRow.name)))
                operations = set(await session.scalars(select(OperationRow.id)))
                keys = await session.scalar(select(func.count()).select_from(AnswerRow))
            self._found += await broken(database)
        finally:
            await database.close()
        if there != names or len(operations) != len(names) or keys != len(names):
            self._found.append(
                f"{len(there)} clusters, {len(operations)} operations and {keys} request ids "
                f"for {len(names)} requests"
            )
        started = await settled(await self._started(operations))
        self._figures |= {"clusters": len(there), "workflows": len(started)}
        if started != operations:
            self._found.append(f"{len(started)} workflows for {len(operations)} operations")

    async def _started(
        self, operations: set[str]
    ) -> Callable[[], Awaitable[tuple[bool, set[str]]]]:
        client = await self._installation.client()

        async def look() -> tuple[bool, set[str]]:
            started = {flow.id.removeprefix("op-") async for flow in client.list_workflows()}
            return started == operations, started

        return look

    def _outcome(self) -> Outcome:
        self._found += self._installation.fallen()
        self._installation.keeps_logs = bool(self._found)
        return Outcome(self._name, self._figures, self._found)
