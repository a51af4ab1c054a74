"""What clusters were made for, as their makers wrote it down."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import Cluster
from domain.ownership import claimed
from store.clusters import as_cluster, living, unknown
from store.engine import Store, transaction


class ClusterOwners(Store):
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
