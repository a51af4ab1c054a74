"""What clusters were made for, as their makers wrote it down."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import Cluster
from domain.ownership import claimed
from store.clusters import as_cluster, living, unknown
from store.engine import Store, reading, transaction
from store.rows import ClusterRow


class ClusterOwners(Store):
    @reading
    async def of(self, session: AsyncSession, uid: str) -> str:
        """What a cluster was made for. Empty: nothing was recorded, or it does not exist."""
        cluster = await session.get(ClusterRow, uid)
        return cluster.owner if cluster else ""

    @transaction
    async def claim(self, session: AsyncSession, tenant: str, name: str, owner: str) -> Cluster:
        """Write down what a cluster was made for that has no owner. Repeating it changes nothing.
        Conflict: it has another owner."""
        cluster = await living(session, tenant, name)
        if cluster is None:
            raise unknown(name)
        await session.refresh(cluster, with_for_update=True)
        cluster.owner = claimed(f"cluster {name}", cluster.owner, owner)
        return as_cluster(cluster)
