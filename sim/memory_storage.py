"""What the ports promise of Ceph, kept without a socket."""

from domain.errors import AlreadyExists
from domain.share import Identity, PoolMade, PoolWanted
from domain.storage import Observation
from domain.storage_gates import is_marked
from domain.storage_plan import OsdMark, Renewal, Target
from sim.world import MemoryWorld


class MemoryStorage:
    """`domain.storage_ports.Storage`."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def ensure_pool(self, wanted: PoolWanted) -> PoolMade:
        if wanted.name not in self._world.pools:
            self._world.pools[wanted.name] = wanted.owner
            self._world.ceph.numbers.append(wanted.name)
        if self._world.pools[wanted.name] != wanted.owner:
            raise AlreadyExists(f"the pool {wanted.name} is somebody else's")
        return PoolMade(wanted=wanted, cluster="memory", mons=("127.0.0.1:6789",))

    async def delete_pool(self, wanted: PoolWanted) -> None:
        if self._world.pools.get(wanted.name) != wanted.owner:
            return
        if wanted.id in (0, self._world.ceph.number(wanted.name)):
            del self._world.pools[wanted.name]

    async def ensure_identity(self, identity: Identity) -> None:
        self._world.identities[identity.entity] = identity.pool

    async def revoke_identity(self, identity: Identity) -> None:
        self._world.identities.pop(identity.entity, None)

    async def observe(self) -> Observation:
        return self._world.ceph.seen()

    async def mark_osd(self, mark: OsdMark) -> None:
        if not is_marked(self._world.ceph.seen(), mark):
            self._world.ceph.mark(mark)

    async def safe_to_destroy(self, osd: int) -> bool:
        return self._world.ceph.drained(osd)

    async def begin_upgrade(self, target: Target) -> None:
        self._world.ceph.renew(target.version)

    async def pause_upgrade(self) -> None:
        self._world.ceph.renewing_paused = bool(self._world.ceph.renewing)

    async def renewal(self) -> Renewal:
        return self._world.ceph.renewal()
