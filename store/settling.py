"""How operations on instances come to their ends: what is made of the rows, and taken back."""

from typing import TypeAlias

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain import awaiting
from domain.app import App
from domain.appinst import AppInst, reclaimed
from domain.awaiting import Aim, Outlook, Verdict, judge
from domain.clusterinst import ClusterInst, room_taken
from domain.errors import Exhausted, Failure
from domain.flavor import Flavor
from domain.instance_plan import InstancePlan
from domain.key_text import name_text
from domain.operation import Cancelled, Stage
from domain.record import Noun
from domain.refusal import Refusal
from domain.tracking import APP_MOVES, CLUSTER_MOVES, Move, Moves, Phase, led
from domain.usage import Taken
from store import cloudlet_refs, operations, tracked
from store.clock import moment
from store.edge_rows import AppInstRow, CloudletRefsRow, ClusterInstRow
from store.rows import OperationRow, RecordRow
from store.tracked import AnyRow

MOVES: dict[Noun, Moves] = {Noun.CLUSTER_INST: CLUSTER_MOVES, Noun.APP_INST: APP_MOVES}
"""What may be done to each."""


async def settle(
    session: AsyncSession, operation: OperationRow, plan: InstancePlan, row: AnyRow | None
) -> Outlook:
    """End an operation if its instance is as it was wanted, or is left to its resource manager; and
    say what else there is to do. Whoever forgives holds the cloudlet's row before."""
    if operation.ended is not None or (row is not None and row.operation != operation.id):
        return Outlook(verdict=Verdict.OVER)
    phase = Phase(row.phase) if row is not None else Phase.NOT_PRESENT
    left = (row.until - await moment(session)).total_seconds() if row is not None else 0.0
    verdict = judge(plan.aim, phase, time_up=left <= 0)
    if verdict is Verdict.WAIT:
        return Outlook(verdict=verdict, left_seconds=left)
    if verdict is Verdict.DONE:
        await tracked.tell(session, operation.id, awaiting.done(plan.noun, plan.aim))
        return await _concluded(session, operation, plan)
    failure = _failure(plan, phase, verdict, row)
    if plan.override.forgives and plan.aim is not Aim.UPDATE and row is not None:
        await _force(session, plan, row)
        said = awaiting.forgiven(plan.noun, plan.aim, failure.message)
        await tracked.tell(session, operation.id, *said)
        return await _concluded(session, operation, plan)
    if verdict is Verdict.LATE:
        await tracked.tell(session, operation.id, awaiting.late(plan.noun, phase))
        await tracked.succeed(session, operation.id)
        return Outlook(verdict=verdict)
    return Outlook(verdict=verdict, failure=failure)


async def finish(session: AsyncSession, operation: OperationRow, row: AnyRow | None) -> bool:
    """End an operation whose workflow has not yet seen that it is done. Whether it was."""
    plan = InstancePlan.model_validate_json(operation.plan)
    phase = Phase(row.phase) if row is not None else Phase.NOT_PRESENT
    mine = row is None or row.operation == operation.id
    if plan.wanted or not mine or judge(plan.aim, phase, time_up=False) is not Verdict.DONE:
        return False
    await tracked.tell(session, operation.id, awaiting.done(plan.noun, plan.aim))
    await tracked.succeed(session, operation.id)
    await session.flush()  # it lets go of the subject before the next one holds it
    return True


async def take_back(
    session: AsyncSession, operation: OperationRow, plan: InstancePlan, failure: Failure
) -> None:
    """Undo whatever of an operation can be undone, and end it. All that it did are rows."""
    await session.get(CloudletRefsRow, plan.cloudlet, with_for_update=True)
    row = await tracked.held(session, plan.noun, plan.key) if plan.noun in tracked.ROWS else None
    operation = await operations.locked(session, operation.id)
    if operation.ended is not None:
        return
    if row is not None and row.operation == operation.id:
        if judge(plan.aim, Phase(row.phase), time_up=False) is Verdict.DONE:
            await settle(session, operation, plan, row)
            return
        if row.phase != Phase.DELETE_PREPARE:
            undoing = awaiting.UNDOING[plan.noun, plan.aim]
            await tracked.tell(session, operation.id, *undoing)
        await _undo(session, operation, plan, row)
    if plan.nested:
        await _undo_cluster(session, operation, plan)
    stage = Stage.FAILED
    if failure.kind == "Cancelled":
        stage = Stage.CANCELLED
        failure = Cancelled.by(operation.cancelled_by or "someone in Temporal")
    operations.end(session, operation, stage, failure.message, failure)


async def remove(session: AsyncSession, row: AnyRow) -> None:
    """Take an instance away, and give back what it has."""
    if row.holds:
        refs = await session.get_one(CloudletRefsRow, row.cloudlet, with_for_update=True)
        await cloudlet_refs.give_back(session, refs, row)
    await tracked.drop(session, row)


async def roll_back(session: AsyncSession, row: ClusterInstRow) -> None:
    """Let a cluster be what it was before it was to be changed. What went wrong stays visible."""
    cluster = ClusterInst.model_validate_json(row.facts)
    cluster = cluster.model_copy(update={"nodes": row.nodes_before})
    row.facts = cluster.model_dump_json()
    refs = await session.get_one(CloudletRefsRow, row.cloudlet, with_for_update=True)
    await cloudlet_refs.swap(session, refs, row, await taken_by(session, row))
    await tracked.move(session, row, led(CLUSTER_MOVES, Phase(row.phase), Move.UNDO_UPDATE))


async def taken_by(session: AsyncSession, row: ClusterInstRow) -> Taken:
    """What a cluster takes as it is described."""
    cluster = ClusterInst.model_validate_json(row.facts)
    size = await tracked.facts(session, Noun.FLAVOR, name_text(cluster.flavor))
    room = Taken()
    if size is not None:  # it is: what a cluster names cannot be deleted
        room = room_taken(cluster, Flavor.model_validate_json(size))
    return room.model_copy(update={"addresses": int(bool(cluster.allocated_ip))})


Tenants: TypeAlias = list[tuple[AppInstRow, App]]


async def tenants(session: AsyncSession, cluster: str) -> Tenants:
    """What runs in a cluster, each with its app."""
    rows = await session.execute(
        select(AppInstRow, RecordRow.facts)
        .join(RecordRow, (RecordRow.noun == Noun.APP) & (RecordRow.key == AppInstRow.app))
        .where(AppInstRow.cluster == cluster)
        .order_by(AppInstRow.key)
    )
    return [(row, App.model_validate_json(facts)) for row, facts in rows]


async def leaves_cluster(session: AsyncSession, plan: InstancePlan) -> bool:
    """Whether an operation leaves a cluster that was made for its instance."""
    if plan.noun is not Noun.APP_INST or plan.aim is not Aim.DELETE:
        return False
    cluster = await session.get(ClusterInstRow, plan.cluster)
    return cluster is not None and ClusterInst.model_validate_json(cluster.facts).auto


async def _concluded(session: AsyncSession, operation: OperationRow, plan: InstancePlan) -> Outlook:
    """End an operation whose work is done, unless it leaves a cluster that was made for it."""
    if await leaves_cluster(session, plan):
        return Outlook(verdict=Verdict.DONE, more=True)
    await tracked.succeed(session, operation.id)
    return Outlook(verdict=Verdict.DONE)


def _failure(plan: InstancePlan, phase: Phase, verdict: Verdict, row: AnyRow | None) -> Failure:
    if verdict is Verdict.FAILED and row is not None:
        text = awaiting.failures(tracked.errors_of(row))
        return Failure.of(Refusal.INSTANCE_FAILED(text=text))
    return Failure.of(Refusal.INSTANCE_OVERDUE(text=awaiting.overdue(plan.aim, phase)))


async def _force(session: AsyncSession, plan: InstancePlan, row: AnyRow) -> None:
    """Make it so, whatever its resource manager says."""
    if plan.aim is Aim.CREATE:
        await tracked.move(session, row, Phase.READY)
    else:
        await remove(session, row)


UNDOES: dict[Aim, Move] = {
    Aim.CREATE: Move.UNDO_CREATE,
    Aim.UPDATE: Move.UNDO_UPDATE,
    Aim.DELETE: Move.UNDO_DELETE,
}


async def _undo(
    session: AsyncSession, operation: OperationRow, plan: InstancePlan, row: AnyRow
) -> None:
    """What went wrong with a delete is told to who asked for it, and does not stay on an instance
    that is kept."""
    if isinstance(row, ClusterInstRow) and row.phase == Phase.DELETE_PREPARE:
        await tracked.move(session, row, Phase(row.before))
        return
    to = led(MOVES[plan.noun], Phase(row.phase), UNDOES[plan.aim])
    if to is Phase.NOT_PRESENT:
        await remove(session, row)
    elif isinstance(row, AppInstRow):
        if await _keep_app(session, row, to):
            await tracked.tell(session, operation.id, awaiting.CREATED)
    elif plan.aim is Aim.UPDATE:
        await roll_back(session, row)
    else:
        refs = await session.get_one(CloudletRefsRow, row.cloudlet, with_for_update=True)
        await cloudlet_refs.take(session, refs, row, await taken_by(session, row))
        row.errors = "[]"
        await tracked.move(session, row, to)


async def _keep_app(session: AsyncSession, row: AppInstRow, to: Phase) -> bool:
    """Let an instance be there again. One whose ports are all taken by now stays in its error:
    it can be deleted again. Whether it is there."""
    refs = await session.get(CloudletRefsRow, row.cloudlet, with_for_update=True)
    if refs is not None:
        instance = AppInst.model_validate_json(row.facts)
        before = Taken.model_validate_json(row.taken)
        try:
            kept = reclaimed(instance, before, cloudlet_refs.usage(refs))
        except Exhausted:
            await tracked.move(session, row, Phase.DELETE_ERROR)
            return False
        row.facts = kept.instance.model_dump_json(exclude_defaults=True)
        await cloudlet_refs.take(session, refs, row, kept.taken)
    row.errors = "[]"
    await tracked.move(session, row, to)
    return True


async def _undo_cluster(session: AsyncSession, operation: OperationRow, plan: InstancePlan) -> None:
    """Take away the cluster that was made for an instance that did not come to be, unless somebody
    else has come to need it. Its resource manager hears of it and is not waited for."""
    row = await tracked.held(session, Noun.CLUSTER_INST, plan.cluster)
    if row is None or row.operation != plan.nested:
        return
    inside = await tenants(session, plan.cluster)
    if any(not app.auto_delete for _, app in inside):
        return
    await tracked.tell(session, operation.id, awaiting.UNDOING_AUTO)
    for tenant, _ in inside:
        await remove(session, tenant)
    await remove(session, row)
