"""All stores over one database, as one process holds them, and the moves stories are made of."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import select, text, update

from domain.cluster import ClusterOrder, Limits, Phase, PoolOrder
from domain.machine import Machine, Sighting
from domain.operation import (
    Ask,
    Event,
    Mark,
    Operation,
    OperationId,
    Reached,
    StepKey,
)
from domain.releases import Release
from store.clusters import Building, Clusters, Deleted
from store.engine import Database
from store.journal import Journal
from store.marks import Marks
from store.operations import Operations
from store.pools import Pools, Terms
from store.rows import Row
from store.secrets import Secrets
from store.steering import Steering
from store.stocks import Stocks
from store.tail import Tail
from store.upgrades import Upgrades

AnyRow = TypeVar("AnyRow", bound=Row)

RELEASE = Release(version="1.32.1", series="jammy")
BUILDING = Building(domain="windlass.test")
TERMS = Terms(limits=Limits(), building=BUILDING)


def order(name: str = "hello", *, control_planes: int = 1, workers: int = 2) -> ClusterOrder:
    return ClusterOrder(
        name=name,
        control_plane=PoolOrder(name="control-plane", count=control_planes),
        pools=(PoolOrder(name="pool", count=workers, instance_type="big"),),
    )


def ask(key: str = "", *, digest: str = "", method: str = "Create", caller: str = "ann") -> Ask:
    return Ask(method=method, key=key, digest=digest, caller=caller)


class Desk:
    """One process's stores."""

    def __init__(self, database: Database, vault: Secrets) -> None:
        self.database = database
        self.vault = vault
        self.tail = Tail(database)
        self.journal = Journal(database, self.tail)
        self.clusters = Clusters(database, vault)
        self.operations = Operations(database)
        self.pools = Pools(database)
        self.upgrades = Upgrades(database)
        self.marks = Marks(database)
        self.steering = Steering(database)
        self.stocks = Stocks(database)

    async def create(
        self, name: str = "hello", *, asked: Ask | None = None, **size: int
    ) -> Operation:
        asked = asked or ask()
        return await self.clusters.request_create(order(name, **size), RELEASE, BUILDING, asked)

    async def creating(self, name: str = "hello") -> Operation:
        """A create that its workflow has taken up."""
        operation = await self.create(name)
        await self.operations.begin(operation.id)
        return await self.operations.get(operation.id)

    async def running(self, name: str = "hello") -> Operation:
        """A create that went well."""
        operation = await self.creating(name)
        well = Reached.well(operation.id, Phase.RUNNING, "ready")
        await self.clusters.reach(well.model_copy(update={"published": True}))
        return operation

    async def standing(
        self, name: str = "hello", *, workers: int = 2, control_planes: int = 1
    ) -> Operation:
        """A create that went well, with a Ready node in every slot."""
        operation = await self.create(name, workers=workers, control_planes=control_planes)
        await self.operations.begin(operation.id)
        for number, state in enumerate((await self.clusters.nodes(name)).slots, start=1):
            machine = Machine(slot=state.slot, system_id=f"m{number}", address=f"10.0.0.{number}")
            await self.did(operation.id, "machines.allocate", state.slot.name, learnt=machine)
            runs = {"kubelet": RELEASE.version}
            await self.did(operation.id, "kubernetes.wait_node", state.slot.name, **runs)
        well = Reached.well(operation.id, Phase.RUNNING, "ready")
        await self.clusters.reach(well.model_copy(update={"published": True}))
        return operation

    async def delete(self, name: str = "hello", *, asked: Ask | None = None) -> Deleted:
        return await self.clusters.request_delete(name, asked or ask(method="Delete"))

    async def deleted(self, name: str = "hello") -> Operation:
        """A delete that went well."""
        operation = (await self.delete(name)).operation
        await self.operations.begin(operation.id)
        await self.clusters.reach(Reached.well(operation.id, Phase.GONE, "deleted"))
        return operation

    async def mark(
        self,
        operation: OperationId,
        verb: str,
        subject: str,
        sighting: Sighting,
        *,
        attempt: int = 1,
        turn: int = 1,
        undo: bool = False,
        **seen: Any,
    ) -> None:
        step = StepKey(verb=verb, subject=subject, turn=turn, undo=undo)
        await self.marks.make(
            Mark(operation=operation, step=step, attempt=attempt, sighting=sighting, **seen)
        )

    async def did(self, operation: OperationId, verb: str, subject: str, **seen: Any) -> None:
        """A step from its beginning to its good end."""
        await self.mark(operation, verb, subject, Sighting.BEGAN)
        await self.mark(operation, verb, subject, Sighting.ENDED, **seen)

    async def lines(self, operation: OperationId) -> Sequence[Event]:
        return await self.journal.since(operation, 0)

    async def all(self, row: type[AnyRow], **where: Any) -> list[AnyRow]:
        """The rows as they lie in their table, asked for behind the stores' back."""
        async with self.database.session(writes=False) as session:
            return list(await session.scalars(select(row).filter_by(**where)))

    async def change(self, row: type[Row], values: dict[str, Any], **where: Any) -> None:
        """Change rows behind the stores' back."""
        async with self.database.session(writes=True) as session:
            await session.execute(update(row).filter_by(**where).values(values))

    async def sees_somebody_wait(self) -> bool:
        """Whether anyone at PostgreSQL waits for another's lock."""
        waiting = text(
            "SELECT 1 FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        async with self.database.session(writes=False) as session:
            return await session.scalar(waiting) is not None

    async def close(self) -> None:
        await self.tail.close()


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that nobody announces."""
    while True:
        held = holds()
        if held if isinstance(held, bool) else await held:
            return
        await asyncio.sleep(0.005)


def whole(lines: Sequence[Event]) -> bool:
    """Whether a journal has no gap and at most one last line, at its end."""
    numbers = [line.number for line in lines]
    return numbers == list(range(1, len(lines) + 1)) and not any(line.last for line in lines[:-1])
