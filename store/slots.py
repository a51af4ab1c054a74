"""The rows of pools and slots: how they are made, read, and cleared away."""

import json
from collections import Counter
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import ClusterPlan, Phase, PoolOrder
from domain.machine import Label, Slot, SlotPhase, SlotState
from store.rows import PoolRow, SlotRow


def slot_row(slot: Slot, ordinal: int, moment: datetime) -> SlotRow:
    """The row of a slot that holds nothing yet."""
    return SlotRow(
        cluster=slot.cluster_uid,
        name=slot.name,
        pool=slot.pool,
        ordinal=ordinal,
        slot=slot.model_dump_json(),
        phase=SlotPhase.PLANNED,
        system_id="",
        hostname="",
        address="",
        status="",
        kubelet="",
        changed=moment,
    )


def pool_row(cluster_uid: str, pool: PoolOrder, ordinal: int) -> PoolRow:
    return PoolRow(
        cluster=cluster_uid,
        name=pool.name,
        ordinal=ordinal,
        wanted=pool.count,
        instance_type=pool.instance_type,
        labels=json.dumps([label.model_dump() for label in pool.labels]),
    )


def pool_order(row: PoolRow, count: int) -> PoolOrder:
    """The pool as if it were asked for with so many machines."""
    return PoolOrder(
        name=row.name,
        count=count,
        instance_type=row.instance_type,
        labels=tuple(Label.model_validate(label) for label in json.loads(row.labels)),
    )


def slot_state(row: SlotRow) -> SlotState:
    return SlotState(
        slot=Slot.model_validate_json(row.slot),
        phase=SlotPhase(row.phase),
        system_id=row.system_id,
        hostname=row.hostname,
        address=row.address,
        status=row.status,
        kubelet=row.kubelet,
    )


async def slots_of(session: AsyncSession, cluster_uid: str) -> list[SlotRow]:
    """A cluster's slots in the order they were planned in."""
    query = select(SlotRow).where(SlotRow.cluster == cluster_uid).order_by(SlotRow.ordinal)
    return list(await session.scalars(query))


async def pools_of(session: AsyncSession, cluster_uid: str) -> list[PoolRow]:
    query = select(PoolRow).where(PoolRow.cluster == cluster_uid).order_by(PoolRow.ordinal)
    return list(await session.scalars(query))


class Standing(NamedTuple):
    """What a cluster is by what its slots hold, and for each pool what is not as wanted."""

    phase: Phase
    lacking: str


async def settle(session: AsyncSession, cluster_uid: str, plan: ClusterPlan) -> Standing:
    """Once a change of pools is over: clear away the slots it emptied and the pools that hold
    nothing any more, and say how the cluster stands. However the change ended, RUNNING means that
    every pool has as many Ready nodes as are wanted of it."""
    change = plan.change
    retiring = {each.named for each in change.retiring} if change else set()
    dropping = set(change.dropping) if change else set()
    rows = await slots_of(session, cluster_uid)
    emptied = {row.name for row in rows if row.name in retiring and row.phase == SlotPhase.RELEASED}
    left = [row for row in rows if row.name not in emptied]
    held = Counter(row.pool for row in left)
    pools = await pools_of(session, cluster_uid)
    gone = {pool.name for pool in pools if pool.name in dropping and not held[pool.name]}
    for table, names in ((SlotRow, emptied), (PoolRow, gone)):
        of_cluster = delete(table).where(table.cluster == cluster_uid)
        await session.execute(of_cluster.where(table.name.in_(names)))
    ready = Counter(row.pool for row in left if row.phase == SlotPhase.HEALTHY)
    wanted = {**held, **{pool.name: pool.wanted for pool in pools if pool.name not in gone}}
    lacking = [
        f"{pool} has {held[pool]} places, {ready[pool]} Ready nodes, and {wanted[pool]} wanted"
        for pool in sorted(wanted)
        if not ready[pool] == held[pool] == wanted[pool]
    ]
    return Standing(Phase.DEGRADED if lacking else Phase.RUNNING, "; ".join(lacking))
