"""The rows of pools and slots: how they are made, read, and cleared away."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import ClusterPlan, Phase, PoolOrder
from domain.counting import several
from domain.machine import Label, LeftBehind, Machine, Role, Slot, SlotPhase, SlotState
from domain.naming import CONTROL_PLANE
from domain.repairs import ANSWERING
from domain.seen import MachineSeen, NodeSeen
from domain.upgrades import behind
from store.rows import ClusterRow, PoolRow, SlotRow, WatchRow


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
        node="",
        machine="",
        changed=moment,
        mends=0,
        mended=None,
    )


async def are_unheard(session: AsyncSession, name: str) -> bool:
    """Whether the API of the living cluster of that name gave no answer when it was last asked.
    What was seen before an operation took over is no news."""
    quiet = select(ClusterRow.uid).where(
        ClusterRow.name == name,
        ClusterRow.phase != Phase.GONE,
        ClusterRow.trouble != "",
        WatchRow.cluster == ClusterRow.uid,
        WatchRow.silent_since.is_not(None),
    )
    return await session.scalar(quiet) is not None


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
        node=NodeSeen.model_validate_json(row.node) if row.node else None,
        machine=MachineSeen.model_validate_json(row.machine) if row.machine else None,
    )


def working(slots: Iterable[SlotState]) -> tuple[Machine, ...]:
    """The control planes by which others can join."""
    return tuple(
        state.filled_by
        for state in slots
        if state.slot.role is Role.CONTROL_PLANE and state.phase in ANSWERING
    )


async def slots_of(session: AsyncSession, cluster_uid: str) -> list[SlotRow]:
    """A cluster's slots in the order they were planned in."""
    query = select(SlotRow).where(SlotRow.cluster == cluster_uid).order_by(SlotRow.ordinal)
    return list(await session.scalars(query))


async def pools_of(session: AsyncSession, cluster_uid: str) -> list[PoolRow]:
    query = select(PoolRow).where(PoolRow.cluster == cluster_uid).order_by(PoolRow.ordinal)
    return list(await session.scalars(query))


async def left_behind(
    session: AsyncSession, cluster_uid: str, reported: Sequence[LeftBehind]
) -> tuple[LeftBehind, ...]:
    """What is reported by its name alone, with all that the rows know of it."""
    if not reported:
        return ()
    known = {row.name: row for row in await slots_of(session, cluster_uid)}
    return tuple(
        each.model_copy(
            update={
                "system_id": row.system_id,
                "hostname": row.hostname,
                "agent_name": slot_state(row).slot.agent_name,
            }
        )
        if (row := known.get(each.name))
        else each
        for each in reported
    )


class Standing(NamedTuple):
    """What a cluster is by what its slots hold, and for each pool what is not as wanted."""

    phase: Phase
    lacking: str


async def settle(session: AsyncSession, cluster: ClusterRow, plan: ClusterPlan) -> Standing:
    """Once a change of a cluster that stands is over: clear away the slots it emptied and the pools
    that hold nothing any more, let slots learn which release their nodes run now, and say how the
    cluster stands. However the change ended, RUNNING means that every pool has as many Ready nodes
    as are wanted of it, of the version that is wanted, and ERROR that no control plane is Ready; an
    upgrade is finished once no node of the old version is left. One that stopped leaves the cluster
    DEGRADED at worst, so that it can be gone on with: whether its API answers, the next look says.
    """
    change = plan.change
    retiring = {each.named for each in change.retiring} if change else set()
    dropping = set(change.dropping) if change else set()
    rows = await slots_of(session, cluster.uid)
    emptied = {row.name for row in rows if row.name in retiring and row.phase == SlotPhase.RELEASED}
    left = [row for row in rows if row.name not in emptied]
    held = Counter(row.pool for row in left)
    pools = await pools_of(session, cluster.uid)
    gone = {pool.name for pool in pools if pool.name in dropping and not held[pool.name]}
    for table, names in ((SlotRow, emptied), (PoolRow, gone)):
        of_cluster = delete(table).where(table.cluster == cluster.uid)
        await session.execute(of_cluster.where(table.name.in_(names)))
    if plan.upgrade:
        _learn(left, plan.upgrade.release.version)
    conclude(cluster, left)
    states = list(map(slot_state, left))
    wanted = {**held, **{pool.name: pool.wanted for pool in pools if pool.name not in gone}}
    lacking = list(_lacking(states, wanted, cluster.pending or cluster.version))
    leading = [row for row in left if row.pool == CONTROL_PLANE]
    if plan.upgrade is None and not any(row.phase in ANSWERING for row in leading):
        return Standing(Phase.ERROR, "; ".join(lacking))  # nobody can work with it
    return Standing(Phase.DEGRADED if lacking else Phase.RUNNING, "; ".join(lacking))


def conclude(cluster: ClusterRow, rows: Sequence[SlotRow]) -> None:
    """Finish the upgrade that was begun, if no node of the old version is left."""
    if not cluster.pending or behind(map(slot_state, rows), cluster.pending):
        return
    _learn(rows, cluster.pending)
    cluster.version, cluster.pending = cluster.pending, ""


def _learn(rows: Iterable[SlotRow], version: str) -> None:
    """A slot whose node runs the version is filled again with it, if it ever must be. The series is
    the same: nodes are upgraded in place."""
    for row in rows:
        state = slot_state(row)
        release = state.slot.release
        if state.kubelet == version and release.version != version:
            learnt = release.model_copy(update={"version": version})
            row.slot = state.slot.model_copy(update={"release": learnt}).model_dump_json()


def _lacking(states: Sequence[SlotState], wanted: Mapping[str, int], version: str) -> Iterable[str]:
    """What is not as wanted, pool by pool."""
    held = Counter(state.slot.pool for state in states)
    ready = [state for state in states if state.phase is SlotPhase.HEALTHY]
    able = Counter(state.slot.pool for state in ready)
    there = Counter(state.slot.pool for state in ready if state.version == version)
    for pool, number in sorted(wanted.items()):
        if not able[pool] == held[pool] == number:
            has = f"{several(held[pool], 'place')}, {several(able[pool], 'Ready node')}"
            yield f"{pool} has {has}, and {number} wanted"
        if there[pool] < able[pool]:
            yield f"{pool} has {there[pool]} of {able[pool]} Ready nodes at {version}"
