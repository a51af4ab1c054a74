"""What is known of clusters that stand, for those who look at them, and what their looks find.

Whoever looks reads the rows each time, many clusters together; nothing is written while they say
how it is. What is found is judged once more when it is written, by the rows as they are then, and
never against an operation: it is the operation's word then."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from sqlalchemy import Row, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import Phase, advance
from domain.health import JUDGED, Finding, Tolerance, Watched, judge
from domain.machine import SlotState
from domain.operation import StepState
from domain.seen import Inside, Led, Tour
from store import operations, slots
from store.clusters import IS_LIVING
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.rows import ClusterRow, OperationRow, PoolRow, SlotRow, StepRow, WatchRow, now

_Found: TypeAlias = Row[ClusterRow, datetime | None, str, str, bool, WatchRow]
"""A cluster, when its operation ended, the gate that this stands before, who paused it, whether one
of its steps is under way, and what was last seen, if anything was."""

STANDING = (*JUDGED, Phase.RECONCILING)
IS_STANDING = IS_LIVING, ClusterRow.published, ClusterRow.phase.in_(STANDING)


class Watches(Store):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._gather = Gather[str, Watched | None](self._read)

    async def watched(self, cluster: str) -> Watched | None:
        """A living cluster by its uid, None if there is none. Those asked for at the same time are
        read together."""
        return await self._gather.ask(cluster)

    @reading
    async def _read(
        self, session: AsyncSession, clusters: Sequence[str]
    ) -> Sequence[Watched | None]:
        found = await _watched(session, sorted(set(clusters)))
        return [found.get(cluster) for cluster in clusters]

    @transaction
    async def record(self, session: AsyncSession, tour: Tour, tolerance: Tolerance) -> bool:
        """Write what a tour of looks found; whether there still is a cluster to look at. A change
        that was accepted since the last look has the say: then nothing is written but that
        somebody was here."""
        cluster = await session.get(ClusterRow, tour.uid)
        if cluster is None or cluster.phase == Phase.GONE:
            return False
        operation = await operations.locked(session, cluster.operation)  # first, as all others do
        await session.refresh(cluster, with_for_update=True)
        found = (await _watched(session, [tour.uid])).get(tour.uid)
        if found is None or not found.stands:
            return False
        watch = await session.get(WatchRow, tour.uid) or _watch_row(tour.uid)
        session.add(watch)
        watch.heard = now()
        watch.inspected = tour.inspected or watch.inspected
        held = found.judged and cluster.operation == operation.id
        if tour.sight is None:
            if held and tour.confirmed is not None:
                watch.confirmed = tour.confirmed
        elif held and tour.sight.operation == operation.id:
            finding = judge(found, tour.sight, tolerance)
            await _write(session, cluster, watch, found.finding, finding)
            if cluster.pending and not found.busy:  # a node of the new version is Ready at last
                slots.conclude(cluster, await slots.slots_of(session, tour.uid))
            watch.confirmed = tour.sight.taken
        return True

    @transaction
    async def led(self, session: AsyncSession, led: Led) -> None:
        """Remember where a cluster's endpoint was led to, unless an operation has come since: it
        may have led it elsewhere."""
        cluster = await session.get(ClusterRow, led.uid, with_for_update=True)
        watch = await session.get(WatchRow, led.uid)
        if cluster and watch and led.addresses and cluster.operation == led.operation:
            watch.led = " ".join(led.addresses)

    @reading
    async def unheard(
        self, session: AsyncSession, older_than_seconds: float, limit: int = 100
    ) -> list[str]:
        """Clusters that stand and whose watcher was not heard of for so long, those first that
        never had one."""
        before = now() - timedelta(seconds=older_than_seconds)
        query = (
            select(ClusterRow.uid)
            .outerjoin(WatchRow, WatchRow.cluster == ClusterRow.uid)
            .where(
                *IS_STANDING,
                or_(WatchRow.heard.is_(None), WatchRow.heard < before),
            )
            .order_by(func.coalesce(WatchRow.heard, ClusterRow.created))
            .limit(limit)
        )
        return list(await session.scalars(query))

    @reading
    async def standing(self, session: AsyncSession) -> list[str]:
        """All clusters that stand, whoever watches them."""
        return list(await session.scalars(select(ClusterRow.uid).where(*IS_STANDING)))

    @transaction
    async def heard(self, session: AsyncSession, cluster: str) -> None:
        """Count a cluster's watcher as heard of: others are looked after first."""
        watch = await session.get(WatchRow, cluster) or _watch_row(cluster)
        watch.heard = now()
        session.add(watch)


def _watch_row(cluster: str) -> WatchRow:
    return WatchRow(
        cluster=cluster,
        heard=now(),
        confirmed=None,
        inspected=None,
        led="",
        inside="",
        silent_since=None,
        why="",
    )


async def _watched(session: AsyncSession, clusters: Sequence[str]) -> dict[str, Watched]:
    """The living ones of these clusters, in as many statements for one as for all."""
    acts = exists().where(StepRow.operation == OperationRow.id, StepRow.state == StepState.ACTIVE)
    of_it = OperationRow.ended, OperationRow.gate, OperationRow.paused_by, acts
    rows = await session.execute(
        select(ClusterRow, *of_it, WatchRow)
        .join(OperationRow, OperationRow.id == ClusterRow.operation)
        .outerjoin(WatchRow, WatchRow.cluster == ClusterRow.uid)
        .where(ClusterRow.uid.in_(clusters), IS_LIVING)
    )
    found = rows.all()
    uids = [cluster.uid for cluster, *_ in found]
    states: dict[str, list[SlotState]] = defaultdict(list)
    wanted: dict[str, dict[str, int]] = defaultdict(dict)
    of_these = select(SlotRow).where(SlotRow.cluster.in_(uids)).order_by(SlotRow.ordinal)
    for slot in await session.scalars(of_these):
        states[slot.cluster].append(slots.slot_state(slot))
    for pool in await session.scalars(select(PoolRow).where(PoolRow.cluster.in_(uids))):
        wanted[pool.cluster][pool.name] = pool.wanted
    return {row[0].uid: _as_watched(row, states[row[0].uid], wanted[row[0].uid]) for row in found}


def _as_watched(row: _Found, states: Sequence[SlotState], wanted: dict[str, int]) -> Watched:
    cluster, ended, gate, paused_by, acts, watch = row
    return Watched(
        uid=cluster.uid,
        name=cluster.name,
        endpoint=cluster.endpoint,
        version=cluster.pending or cluster.version,
        operation=cluster.operation,
        busy=ended is None,
        gated=ended is None and gate != "",
        paused=ended is None and paused_by != "" and not acts,
        published=cluster.published,
        wanted=wanted,
        inspected=watch.inspected if watch else None,
        confirmed=watch.confirmed if watch else None,
        led=tuple(watch.led.split()) if watch else (),
        finding=Finding(
            phase=Phase(cluster.phase),
            trouble=cluster.trouble,
            silent_since=watch.silent_since if watch else None,
            why=watch.why if watch else "",
            inside=Inside.model_validate_json(watch.inside) if watch and watch.inside else None,
            slots=tuple(states),
        ),
    )


async def _write(
    session: AsyncSession, cluster: ClusterRow, watch: WatchRow, before: Finding, found: Finding
) -> None:
    """Write what is new in a finding."""
    if (found.phase, found.trouble) != (before.phase, before.trouble):
        cluster.phase = advance(cluster.name, before.phase, found.phase)
        cluster.trouble = found.trouble
        cluster.changed = now()
    watch.silent_since, watch.why = found.silent_since, found.why
    watch.inside = found.inside.model_dump_json() if found.inside else ""
    changed = {
        now_so.slot.name: now_so
        for was, now_so in zip(before.slots, found.slots, strict=True)
        if now_so != was
    }
    for row in await slots.slots_of(session, cluster.uid) if changed else ():
        if state := changed.get(row.name):
            row.phase = state.phase
            row.hostname, row.address = state.hostname, state.address
            row.status, row.kubelet = state.status, state.kubelet
            row.node = state.node.model_dump_json() if state.node else ""
            row.machine = state.machine.model_dump_json() if state.machine else ""
            row.changed = now()
