"""Upgrades of clusters that stand: accepted, or refused with what is in the way."""

from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import ClusterPlan
from domain.operation import Ask, Kind, Operation, OperationId
from domain.releases import Catalogue
from domain.upgrades import fit, planned, refusal
from store import answers, operations, plans, quotas, slots
from store.clusters import Building, as_cluster, hand_over, living, opened
from store.engine import Store, reading, transaction
from store.repairs import silent_of


class Upgrades(Store):
    @reading
    async def silent(self, session: AsyncSession, tenant: str, name: str) -> tuple[str, ...]:
        """The members of a cluster's etcd that did not answer when they were last asked."""
        row = await living(session, tenant, name)
        return await silent_of(session, row) if row else ()

    @transaction
    async def request(
        self,
        session: AsyncSession,
        name: str,
        version: str,
        catalogue: Catalogue,
        building: Building,
        ask: Ask,
    ) -> Operation:
        """All nodes that do not run the release yet, in their order. What the cluster is to become
        is written down from the start, and stays wanted until it is reached; asking for it again
        goes on where the last upgrade stopped."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        await quotas.refuse_more_running(session, Kind.UPGRADE_CLUSTER, ask)
        row = await opened(session, ask.tenant, name, Kind.UPGRADE_CLUSTER)
        cluster = as_cluster(row)
        pools = {pool.name: pool.ordinal for pool in await slots.pools_of(session, row.uid)}
        rows = await slots.slots_of(session, row.uid)
        rows.sort(key=lambda slot: (pools.get(slot.pool, -1), slot.ordinal))
        states = list(map(slots.slot_state, rows))
        release = fit(states, version, catalogue)
        if refused := refusal(cluster, states, release, silent=await silent_of(session, row)):
            raise refused
        upgrade = planned(
            cluster,
            states,
            release,
            at_once=building.upgrade_at_once,
            drain_seconds=building.drain_seconds,
            drain_policy=building.drain_policy,
        )
        latest = await operations.locked(session, row.operation)
        plan = ClusterPlan.model_validate_json(latest.plan).afresh(
            (state.slot for state in states), release=release, upgrade=upgrade
        )
        plans.refuse_what_is_too_large(plan)
        operation = OperationId(str(uuid4()))
        hand_over(row, operation, f"{upgrade.headline(0)}; accepted (op {operation})")
        row.pending = "" if release.version == row.version else release.version
        subject = f"cluster/{name}"
        made = operations.record(session, operation, Kind.UPGRADE_CLUSTER, subject, plan, ask)
        return operations.as_operation(made)
