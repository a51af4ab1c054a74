"""What is done in Ceph for clusters."""

from temporalio import activity

from domain.share import Identity, PoolMade, PoolWanted
from domain.storage_ports import Storage as Port


class Storage:
    def __init__(self, storage: Port) -> None:
        self._storage = storage

    @activity.defn(name="storage.ensure_pool")
    async def ensure_pool(self, wanted: PoolWanted) -> PoolMade:
        """Safe to repeat: what is there and ours is brought into line."""
        return await self._storage.ensure_pool(wanted)

    @activity.defn(name="storage.delete_pool")
    async def delete_pool(self, wanted: PoolWanted) -> None:
        """Safe to repeat: none there is success, and what is not ours stays."""
        await self._storage.delete_pool(wanted)

    @activity.defn(name="storage.ensure_identity")
    async def ensure_identity(self, identity: Identity) -> None:
        """Safe to repeat: the key stays the same."""
        await self._storage.ensure_identity(identity)

    @activity.defn(name="storage.revoke_identity")
    async def revoke_identity(self, identity: Identity) -> None:
        """Safe to repeat: none there is success."""
        await self._storage.revoke_identity(identity)
