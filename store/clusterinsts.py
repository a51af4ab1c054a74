"""Clusters on cloudlets: asked for, changed, given up, and what resource managers say of them.

A request is one transaction: its checks in the order that clients know, the instance, what it takes
of its cloudlet, the operation, the caller's key and the journal's first line."""

import json
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain import awaiting, clusterinst
from domain.awaiting import Aim
from domain.cloudlet import Cloudlet
from domain.cloudlet_info import Speaker, check_room
from domain.clusterinst import ClusterInst, ClusterInstKey, Ground, Placed
from domain.flavor import Flavor
from domain.instance_plan import InstancePlan
from domain.key_text import cloudlet_text, clusterinst_text, name_text
from domain.operation import Ask, Kind, OperationId
from domain.override import Override
from domain.record import Link, Noun, Record
from domain.refusal import Refusal, refuse_if
from domain.standing import ClusterInstStanding, Report
from domain.tracking import CLUSTER_MOVES, Move, Phase, led
from domain.usage import Taken, Usage, minus, plus
from store import answers, cloudlet_refs, operations, quotas, reports, settling, shelf, tracked
from store.edge_rows import ClusterInstRow
from store.engine import Database, Store, reading, transaction
from store.rows import OperationRow
from store.tracked import Requested, Terms, Turns


class ClusterInsts(Store):
    def __init__(self, database: Database, terms: Terms) -> None:
        super().__init__(database)
        self._terms = terms
        self._turns = Turns()

    async def request_create(self, wanted: ClusterInst, override: Override, ask: Ask) -> Requested:
        """A new cluster, or one whose delete failed, as it is stored. Taken at once if nobody is
        waited for."""
        async with self._turns.of(wanted.key.cloudlet):
            return await self._accept(wanted, override, ask)

    @transaction
    async def _accept(
        self, session: AsyncSession, wanted: ClusterInst, override: Override, ask: Ask
    ) -> Requested:
        if earlier := await answers.answered(session, ask):
            return Requested(operation=operations.as_operation(earlier))
        await quotas.refuse_more_running(session, Kind.CREATE_CLUSTERINST, ask)
        await tracked.refuse_unready(session, wanted.key.cloudlet, override)
        draft = clusterinst.drafted(wanted)
        return await create(session, draft, override, ask, self._terms)

    @transaction
    async def request_update(
        self,
        session: AsyncSession,
        key: ClusterInstKey,
        nodes: int | None,
        override: Override,
        ask: Ask,
    ) -> Requested:
        """Another number of nodes, with what they take. None: an update without change."""
        if earlier := await answers.answered(session, ask):
            return Requested(operation=operations.as_operation(earlier))
        await quotas.refuse_more_running(session, Kind.UPDATE_CLUSTERINST, ask)
        await tracked.refuse_unready(session, key.cloudlet, override)
        refs = await cloudlet_refs.held(session, key.cloudlet)
        row = await _held(session, clusterinst_text(key))
        if row is None:
            raise Refusal.KEY_UNKNOWN()
        before = ClusterInst.model_validate_json(row.facts)
        after = clusterinst.resized(before, Phase(row.phase), nodes)
        running = await tracked.active(session, Noun.CLUSTER_INST, row.key)
        busy = running is not None and not await settling.finish(session, running, row)
        refuse_if(busy, Refusal.CLUSTERINST_NOT_READY)
        operation = tracked.record(session, _plan(row, Aim.UPDATE, override), ask)
        row.nodes_before, row.facts = before.nodes, after.model_dump_json()
        taken = await settling.taken_by(session, row)
        info = await tracked.info_of(session, key.cloudlet)
        if self._terms.enforces and after.nodes > before.nodes and info is not None:
            others = minus(cloudlet_refs.usage(refs), Taken.model_validate_json(row.taken))
            check_room(info, plus(others, taken))
        await cloudlet_refs.swap(session, refs, row, taken)
        return await _asked(session, row, operation, Aim.UPDATE, override, self._terms)

    @transaction
    async def request_delete(
        self, session: AsyncSession, key: ClusterInstKey, override: Override, ask: Ask
    ) -> Requested:
        """Give a cluster up, and first what runs in it and gives way."""
        if earlier := await answers.answered(session, ask):
            return Requested(operation=operations.as_operation(earlier))
        inside = await settling.tenants(session, clusterinst_text(key))
        _refuse_if_needed(inside)
        await tracked.refuse_unready(session, key.cloudlet, override)
        return await delete(session, key, override, ask, self._terms)

    @transaction
    async def observe(
        self,
        session: AsyncSession,
        report: Report,
        info: Record | None = None,
        speaker: Speaker | None = None,
    ) -> OperationId | None:
        """Take in what a resource manager says of a cluster, by `domain.tracking.hear`, and keep
        `info`, its own words, for those who show them. A word out of turn changes nothing else.
        Returns the operation whose workflow is to be nudged, if one waits. Safe to repeat.

        A `speaker` is not listened to who does not speak for the cloudlet any more."""
        return await reports.heard(session, Noun.CLUSTER_INST, report, info, speaker)

    @transaction
    async def forget(
        self, session: AsyncSession, key: str, speaker: Speaker | None = None
    ) -> OperationId | None:
        """Take in that a resource manager has nothing to say of a cluster any more: while it is
        being deleted, that it is gone. As `observe`."""
        return await reports.forgotten(session, Noun.CLUSTER_INST, key, speaker)

    @reading
    async def get(self, session: AsyncSession, key: str) -> ClusterInstStanding | None:
        row = await session.get(ClusterInstRow, key)
        return None if row is None else standing(row)

    @reading
    async def several(
        self, session: AsyncSession, keys: Sequence[str]
    ) -> Sequence[ClusterInstStanding]:
        """Those that there are of some."""
        rows = await session.scalars(select(ClusterInstRow).where(ClusterInstRow.key.in_(keys)))
        return [standing(row) for row in rows]

    @reading
    async def page(
        self, session: AsyncSession, after: str, most: int, cloudlet: str = ""
    ) -> Sequence[ClusterInstStanding]:
        """Clusters in the order of their keys, past one of them; of one cloudlet, if its key is
        said."""
        query = select(ClusterInstRow).where(ClusterInstRow.key > after)
        if cloudlet:
            query = query.where(ClusterInstRow.cloudlet == cloudlet)
        rows = await session.scalars(query.order_by(ClusterInstRow.key).limit(most))
        return [standing(row) for row in rows]


def standing(row: ClusterInstRow) -> ClusterInstStanding:
    return ClusterInstStanding(
        key=row.key,
        cluster=ClusterInst.model_validate_json(row.facts),
        phase=Phase(row.phase),
        errors=tracked.errors_of(row),
    )


async def create(
    session: AsyncSession,
    draft: ClusterInst,
    override: Override,
    ask: Ask,
    terms: Terms,
    *,
    parent: str = "",
) -> Requested:
    """The transaction's part of a create: for callers, and for an app's instance whose cluster is
    made for it."""
    key = clusterinst_text(draft.key)
    ground = await _ground(session, draft)
    refs = await cloudlet_refs.held(session, draft.key.cloudlet)
    row = await _held(session, key)
    running = await tracked.active(session, Noun.CLUSTER_INST, key)
    if running is not None and await settling.finish(session, running, row):
        running = None
    _refuse_if_taken(row, running, override)
    if row is not None:
        await cloudlet_refs.give_back(session, refs, row)
        await tracked.unlink(session, Noun.CLUSTER_INST, key)
        draft = ClusterInst.model_validate_json(row.facts)
        ground = await _ground(session, draft)
    found = {"phase": row.phase if row else Phase.NOT_PRESENT, "usage": cloudlet_refs.usage(refs)}
    placed = clusterinst.placed(draft, ground.model_copy(update=found), override)
    await _check_more(session, placed, ground, cloudlet_refs.usage(refs), terms)
    superseded = await tracked.supersede(session, running)
    is_new = row is None
    if row is None:
        row = _row(key, placed.cluster)
        session.add(row)
    row.facts, row.errors = placed.cluster.model_dump_json(), "[]"
    await cloudlet_refs.take(session, refs, row, placed.taken)
    await tracked.link(session, Noun.CLUSTER_INST, key, _links(placed.cluster))
    plan = _plan(row, Aim.CREATE, override)
    operation = tracked.record(session, plan, ask, supersedes=superseded, parent=parent)
    asked = await _asked(session, row, operation, Aim.CREATE, override, terms)
    if is_new:
        developer = name_text(placed.cluster.key.developer)
        await quotas.refuse_more(session, terms.quota, [developer])
    return asked.model_copy(update={"superseded": superseded})


async def delete(
    session: AsyncSession,
    key: ClusterInstKey,
    override: Override,
    ask: Ask,
    terms: Terms,
    *,
    parent: str = "",
) -> Requested:
    """The transaction's part of a delete. What runs in the cluster and gives way is deleted by the
    operation before; until then nothing new may come into it."""
    refs = await cloudlet_refs.held(session, key.cloudlet)
    row = await _held(session, clusterinst_text(key))
    if row is None:
        raise Refusal.KEY_UNKNOWN()
    running = await tracked.active(session, Noun.CLUSTER_INST, row.key)
    if running is not None and await settling.finish(session, running, row):
        running = None
    _refuse_if_busy(row, running, override)
    inside = await settling.tenants(session, row.key)
    _refuse_if_needed(inside)
    superseded = await tracked.supersede(session, running)
    plan = _plan(row, Aim.DELETE, override)
    operation = tracked.record(session, plan, ask, supersedes=superseded, parent=parent)
    if inside:
        row.before = row.before if row.phase == Phase.DELETE_PREPARE else row.phase
        prepared = led(CLUSTER_MOVES, Phase(row.phase), Move.PREPARE, override=override)
        await tracked.move(session, row, prepared)
        await tracked.claim(session, row, operation, terms, Aim.DELETE)
        asked = Requested(operation=operations.as_operation(operation))
    else:
        await cloudlet_refs.give_back(session, refs, row)
        asked = await _asked(session, row, operation, Aim.DELETE, override, terms)
    return asked.model_copy(update={"superseded": superseded})


async def proceed(
    session: AsyncSession, operation: OperationRow, plan: InstancePlan, terms: Terms
) -> None:
    """The second half of a delete, once nothing is left in the cluster."""
    row = await session.get(ClusterInstRow, plan.key, with_for_update=True)
    if row is None or row.operation != operation.id or row.phase != Phase.DELETE_PREPARE:
        return
    _refuse_if_needed(await settling.tenants(session, row.key))
    if plan.override.ignores_crm:
        await settling.remove(session, row)
        return
    if row.holds:
        key = ClusterInst.model_validate_json(row.facts).key.cloudlet
        await cloudlet_refs.give_back(session, await cloudlet_refs.held(session, key), row)
    await tracked.move(session, row, led(CLUSTER_MOVES, Phase(row.phase), Move.DELETE))
    await tracked.claim(session, row, operation, terms, Aim.DELETE)


WAYS: dict[Aim, tuple[Move, ...]] = {
    Aim.CREATE: (Move.CREATE,),
    Aim.UPDATE: (Move.UPDATE,),
    Aim.DELETE: (Move.PREPARE, Move.DELETE),
}
"""What is done to a cluster in which nothing is, when it is asked for."""


async def _asked(
    session: AsyncSession,
    row: ClusterInstRow,
    operation: OperationRow,
    aim: Aim,
    override: Override,
    terms: Terms,
) -> Requested:
    """Put it before the resource manager; or, if that is not asked, have it done now."""
    await tracked.claim(session, row, operation, terms, aim)
    if not override.ignores_crm:
        asked = led(CLUSTER_MOVES, Phase(row.phase), *WAYS[aim], override=override)
        await tracked.move(session, row, asked)
        return Requested(operation=operations.as_operation(operation))
    if aim is Aim.DELETE:
        await settling.remove(session, row)
    else:
        await tracked.move(session, row, awaiting.TARGET[aim])
    await session.flush()
    await tracked.tell(session, operation.id, awaiting.done(Noun.CLUSTER_INST, aim))
    await tracked.succeed(session, operation.id)
    return Requested(operation=operations.as_operation(operation))


async def _held(session: AsyncSession, key: str) -> ClusterInstRow | None:
    return await session.get(ClusterInstRow, key, with_for_update=True)


async def _ground(session: AsyncSession, draft: ClusterInst) -> Ground:
    """What there is where a cluster is to stand, held against being deleted meanwhile."""
    template = Link(to=Noun.CLUSTER, key=name_text(draft.key.cluster))
    cloudlet = Link(to=Noun.CLOUDLET, key=cloudlet_text(draft.key.cloudlet))
    there = await shelf.read_held(session, [template, cloudlet])
    usual = json.loads(there.get((Noun.CLUSTER, template.key)) or '""')
    wanted = [name for name in (draft.flavor, usual) if name]
    links = [Link(to=Noun.FLAVOR, key=name_text(name)) for name in wanted]
    flavors = await shelf.read_held(session, links)
    place = there.get((Noun.CLOUDLET, cloudlet.key))
    return Ground(
        cloudlet=Cloudlet.model_validate_json(place) if place else None,
        info=await tracked.info_of(session, draft.key.cloudlet),
        default_flavor=usual,
        flavors=tuple(map(Flavor.model_validate_json, flavors.values())),
    )


def _refuse_if_taken(
    row: ClusterInstRow | None, running: OperationRow | None, override: Override
) -> None:
    if row is not None and row.phase == Phase.CREATE_ERROR:
        hint = awaiting.failed_before(Noun.CLUSTER_INST, Aim.CREATE, tracked.errors_of(row))
        raise Refusal.KEY_TAKEN().after([hint])
    refuse_if(running is not None and not override.displaces, Refusal.KEY_TAKEN)


def _refuse_if_busy(row: ClusterInstRow, running: OperationRow | None, override: Override) -> None:
    if row.phase == Phase.DELETE_ERROR:
        hint = awaiting.failed_before(Noun.CLUSTER_INST, Aim.DELETE, tracked.errors_of(row))
        raise Refusal.CLUSTERINST_BUSY().after([hint])
    clusterinst.check_delete(Phase(row.phase), override)
    refuse_if(running is not None and not override.displaces, Refusal.CLUSTERINST_BUSY)


def _refuse_if_needed(inside: settling.Tenants) -> None:
    """Refuse to delete a cluster with what does not give way."""
    needed = any(not app.auto_delete for _, app in inside)
    refuse_if(needed, Refusal.CLUSTERINST_IN_USE)


def _links(cluster: ClusterInst) -> list[Link]:
    key = cluster.key
    return [
        Link(to=Noun.CLOUDLET, key=cloudlet_text(key.cloudlet), yields=cluster.auto),
        Link(to=Noun.FLAVOR, key=name_text(cluster.flavor)),
        Link(to=Noun.CLUSTER, key=name_text(key.cluster)),
        Link(to=Noun.DEVELOPER, key=name_text(key.developer)),
    ]


def _plan(row: ClusterInstRow, aim: Aim, override: Override) -> InstancePlan:
    return InstancePlan(
        noun=Noun.CLUSTER_INST, aim=aim, key=row.key, cloudlet=row.cloudlet, override=override
    )


def _row(key: str, cluster: ClusterInst) -> ClusterInstRow:
    return ClusterInstRow(
        key=key,
        cloudlet=cloudlet_text(cluster.key.cloudlet),
        phase=Phase.NOT_PRESENT,
        **tracked.blank(),
        before="",
        nodes_before=cluster.nodes,
    )


async def _check_more(
    session: AsyncSession, placed: Placed, ground: Ground, usage: Usage, terms: Terms
) -> None:
    """What is only asked for if an operator wants it, and then after everything else."""
    if terms.enforces and ground.info is not None:
        check_room(ground.info, plus(usage, placed.taken))
    await tracked.refuse_unknown_developer(session, placed.cluster.key.developer, terms)
