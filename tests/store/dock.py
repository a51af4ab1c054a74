"""A dock: nodes and instances in a database, without anybody who carries out what is due."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from domain.errand import Errand, Outcome, What
from domain.instance import Call, InstanceSpec, InstanceUid, InstanceView, Phase, Report, check
from domain.node import Candidate, Registered, Said
from domain.operation import Ask
from domain.placement import Amounts
from store.draining import Draining
from store.engine import Database
from store.fleet import Fleet
from store.instances import Instances, tail
from store.keys import KEY_BYTES
from store.neglect import Neglect
from store.node_rows import HostPortRow, NodeRow, PlacementRow
from store.nodes import Leases, Nodes
from store.observing import Observing
from store.placing import Placing
from store.rows import now
from store.sealing import Seal
from store.secrets import Secrets

TENANT = "default"
HUNDRED = Amounts(cpu=100, memory=100, disk=100)


def ask(key: str = "", digest: str = "") -> Ask:
    return Ask(method="scheduler.InstanceService/Create", key=key, digest=digest)


def wanted(id: str = "web-1", **more: Any) -> InstanceSpec:
    limit = Amounts(cpu=10, memory=10, disk=10)
    return check(InstanceSpec(**{"id": id, "uri": "builtin:idle", "limit": limit, **more}))


class Dock:
    def __init__(self, database: Database, leases: Leases | None = None) -> None:
        self.database = database
        self.nodes = Nodes(database, leases or Leases())
        self.tail = tail(database)
        self.vault = Secrets(database, Seal(bytes(KEY_BYTES)))
        self.instances = Instances(database, self.tail, self.vault)
        self.placing = Placing(database, Fleet(snapshot_seconds=0))
        self.neglect = Neglect(database, lost=(leases or Leases()).lost)
        self.draining = Draining(database)
        self.observing = Observing(database)

    async def close(self) -> None:
        await self.tail.close()

    async def node(
        self, id: str, limit: Amounts = HUNDRED, said: Said = Said.RUNNING, **more: Any
    ) -> Registered:
        """Register a node and have it say how it is."""
        registered = await self.register(id, **more)
        await self.nodes.hear(id, said, "", limit, Amounts())
        return registered

    async def steady(self) -> None:
        """Have no node ever be missed, however long a test takes: nobody says that they live."""
        async with self.database.session(writes=True) as session:
            await session.execute(update(NodeRow).values(heard=now() + timedelta(days=1)))

    async def register(self, id: str, **more: Any) -> Registered:
        return await self.nodes.register(Candidate(**{"id": id, "address": f"{id}:50053", **more}))

    async def create(self, id: str = "web-1", **more: Any) -> InstanceUid:
        view = await self.instances.request_create(wanted(id, **more), ask())
        return view.uid

    async def due(self, uid: InstanceUid) -> Errand:
        return await self.placing.consider(uid)

    async def placed(self, id: str = "web-1", **more: Any) -> InstanceUid:
        """An instance that has been given its place, or was refused one."""
        uid = await self.create(id, **more)
        await self.settle(uid, What.PLACE)
        return uid

    async def settle(self, uid: InstanceUid, what: What) -> None:
        """Do what is due of our own rows, which has to be this."""
        errand = await self.due(uid)
        assert errand.what is what
        await self.placing.settle(errand)

    async def says(self, uid: InstanceUid, phase: Phase, says: str = "") -> bool:
        """Have its node say so, on the turn that is due now."""
        errand = await self.due(uid)
        return await self.observing.observe(errand, Report(phase=phase, says=says))

    async def runs(self, id: str = "web-1", **more: Any) -> InstanceUid:
        uid = await self.placed(id, **more)
        await self.says(uid, Phase.RUNNING)
        return uid

    async def done(self, uid: InstanceUid, what: What, *, kept: bool = False) -> None:
        """Have a node do what is due, which has to be this."""
        errand = await self.due(uid)
        assert errand.what is what
        await self.placing.done(Outcome(errand=errand, kept=kept))

    async def wish(self, call: Call, id: str = "web-1") -> InstanceView:
        view, _ = await self.instances.ask_for(TENANT, id, call)
        return view

    async def at(self, uid: InstanceUid) -> InstanceView:
        return await self.instances.at(uid)

    async def phases(self, uid: InstanceUid) -> list[Phase]:
        return [event.phase for event in await self.instances.since(uid, 0)]

    async def balance(self) -> dict[str, int]:
        """How much cpu is taken of each node, which has to be what those placed there may take, and
        never more than there is."""
        async with self.database.session(writes=False) as session:
            rows = await session.execute(
                select(NodeRow.id, NodeRow.taken_cpu, func.sum(PlacementRow.cpu), NodeRow.room_cpu)
                .outerjoin(
                    PlacementRow,
                    (PlacementRow.node == NodeRow.id) & PlacementRow.left.is_(False),
                )
                .group_by(NodeRow.id, NodeRow.taken_cpu, NodeRow.room_cpu)
            )
            found = {}
            for id, taken, placed, room in rows:
                assert taken == (placed or 0) <= room
                found[id] = taken
            return found

    async def leftovers(self) -> list[tuple[str, str]]:
        """The copies that were left somewhere: node and instance."""
        async with self.database.session(writes=False) as session:
            rows = await session.execute(
                select(PlacementRow.node, PlacementRow.instance).where(PlacementRow.left.is_(True))
            )
            return sorted(rows)

    async def ports(self) -> list[tuple[str, int]]:
        """The ports that are taken on hosts."""
        async with self.database.session(writes=False) as session:
            rows = await session.execute(select(HostPortRow.node, HostPortRow.port))
            return sorted(rows)
