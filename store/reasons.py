"""What there is to say about a cluster and its last operation, gathered in one read."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.health import silent
from domain.naming import CONTROL_PLANE
from domain.operation import StepState
from domain.quarantine import Terms
from domain.repairs import Policy
from domain.why import MOST_STUMBLES, Facts
from store import operations, slots, steps
from store.clusters import as_cluster, living, seen, unknown
from store.engine import Database, Store, reading
from store.quarantine import quarantined
from store.repairs import as_patient, inside_of
from store.rows import OperationRow, StepRow, WatchRow


class Reasons(Store):
    def __init__(self, database: Database, terms: Terms) -> None:
        super().__init__(database)
        self._terms = terms

    @reading
    async def of(self, session: AsyncSession, tenant: str, name: str) -> Facts:
        """Everything that may be why the cluster is as it is. NotFound if there is no such
        cluster."""
        cluster = await living(session, tenant, name)
        if cluster is None:
            raise unknown(name)
        latest = await session.get_one(OperationRow, cluster.operation)
        rows = await slots.slots_of(session, cluster.uid)
        masters = sum(row.pool == CONTROL_PLANE for row in rows)
        pools = await slots.pools_of(session, cluster.uid)
        stumbles = await session.scalars(
            select(StepRow)
            .where(
                StepRow.operation == latest.id,
                (StepRow.state == StepState.STUMBLED)
                | ((StepRow.state == StepState.ACTIVE) & (StepRow.attempts > 1)),
            )
            .order_by(StepRow.started.desc())
            .limit(MOST_STUMBLES)
        )
        watch = await session.get(WatchRow, cluster.uid)
        quiet = watch.silent_since if watch and seen(cluster) else None
        return Facts(
            confirmed=watch.confirmed if watch else None,
            silence=silent(quiet, watch.why) if watch and quiet else "",
            cluster=as_cluster(cluster),
            policy=Policy(cluster.policy),
            wanted={CONTROL_PLANE: masters, **{pool.name: pool.wanted for pool in pools}},
            patients=tuple(map(as_patient, rows)),
            trouble=seen(cluster),
            inside=await inside_of(session, cluster),
            operation=operations.as_operation(latest),
            stumbles=tuple(steps.as_step(row) for row in stumbles),
            quarantined=tuple(await quarantined(session, self._terms)),
        )
