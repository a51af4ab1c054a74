"""What is done for a cluster that nobody works on gives way to whoever begins to."""

from collections.abc import Awaitable, Callable

from activities.watching import Patrol, Rhythm, Watching
from domain.health import Tolerance
from domain.machine import SlotPhase
from domain.ports import Endpoint
from domain.repairs import Prudence
from sim.memory import MemoryApi, MemoryEndpoints, MemoryMachines, MemoryNodes
from sim.world import MemoryWorld
from store.engine import Database
from store.repairs import Repairs
from store.rows import SlotRow
from store.secrets import Secrets
from store.watches import Watches
from tests.store.desk import Desk, ask


class SlowNames(MemoryEndpoints):
    """A region in which something happens before the first order is carried out."""

    def __init__(self, world: MemoryWorld, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(world)
        self._meanwhile = [meanwhile]

    async def ensure(self, endpoint: Endpoint) -> None:
        while self._meanwhile:
            await self._meanwhile.pop()()
        await super().ensure(endpoint)


async def test_a_lead_that_arrives_late_does_not_undo_a_repairs(
    database: Database, vault: Secrets
) -> None:
    desk, world = Desk(database, vault), MemoryWorld.of(0)
    await desk.standing(control_planes=3, workers=0)
    cluster = await desk.clusters.get("hello")
    first, second, third = (await desk.clusters.nodes("hello")).slots

    async def a_repair_takes_one_out() -> None:
        assert world.names == {}
        name = second.slot.name
        await desk.change(SlotRow, {"phase": SlotPhase.LOST}, name=name)
        repairs = Repairs(database, Prudence(patience_seconds=0))
        assert await repairs.request("hello", (name,), ask(method="Repair"))
        world.names[cluster.endpoint] = (first.address, third.address)

    watching = Watching(
        Watches(database),
        MemoryApi(world),
        MemoryMachines(world),
        MemoryNodes(world),
        SlowNames(world, a_repair_takes_one_out),
        Rhythm(),
        Tolerance(),
    )
    led = await watching.lead(Patrol(uid=cluster.uid))
    assert set(led.addresses) == {first.address, second.address, third.address}
    assert world.names == {cluster.endpoint: (first.address, third.address)}
    await desk.close()
