"""Clusters, their pools and their slots, and the changes asked for and made to them."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import Row, bindparam, delete, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain import admission, ports
from domain.cluster import (
    Cluster,
    ClusterNodes,
    ClusterOrder,
    ClusterPlan,
    DrainPolicy,
    Phase,
    Upgrade,
    advance,
)
from domain.errors import AlreadyExists, NotFound
from domain.frozen import Frozen
from domain.health import JUDGED, unheard
from domain.operation import (
    SETTLED,
    Ask,
    Kind,
    Operation,
    OperationId,
    Reached,
    Stage,
)
from domain.releases import Release
from domain.repairs import Policy
from domain.share import PoolTerms, refuse_to_choose, shared
from domain.upgrades import TOUCHES
from domain.wishes import settles
from store import answers, journal, operations, plans, quotas, recording, slots, steps
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.operation_reading import LEFT_BEHIND
from store.operations import MESSAGE_LENGTH
from store.rows import ClusterRow, OperationRow, PoolRow, SlotRow, WatchRow, now, table_of
from store.secrets import Secrets
from store.stocks import last_seen, refuse_what_never_fits

CLUSTERS = table_of(ClusterRow)
IS_LIVING = CLUSTERS.c.phase != literal(Phase.GONE, literal_execute=True)
"""Written out in the statement, since the index is over the living and a parameter says nothing."""

LIVING_BY_NAME = select(CLUSTERS).where(
    CLUSTERS.c.name.in_(bindparam("names", expanding=True)), IS_LIVING
)
"""What is asked most often of all, so it is made once and answered with bare rows."""


class Building(Frozen):
    """What is decided for every cluster and not by its order."""

    domain: str
    """Endpoint names are made below this DNS domain."""
    workers_at_once: int = 8
    upgrade_at_once: int = 1
    drain_seconds: float = 600.0
    drain_policy: DrainPolicy = DrainPolicy.PROCEED
    pools: PoolTerms | None = None
    """What pools in Ceph are made with. None: there is no Ceph."""


class Deleted(Frozen):
    """What asking for a delete led to."""

    operation: Operation
    superseded: OperationId | None = None
    """The operation that must be told to stop."""


class Clusters(Store):
    def __init__(self, database: Database, vault: Secrets) -> None:
        super().__init__(database)
        self._vault = vault
        self._gather = Gather[str, Cluster](self._read)

    @transaction
    async def request_create(
        self,
        session: AsyncSession,
        order: ClusterOrder,
        release: Release,
        building: Building,
        ask: Ask,
    ) -> Operation:
        """Cluster, pools, slots with their names, login key, operation, caller's key and first
        journal line: all of them or none."""
        # In this order: whoever sees the cluster also sees under which request id it was made.
        taken = await living(session, ask.tenant, order.name)
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        if taken:
            raise _taken(taken)
        await quotas.refuse_more_running(session, Kind.CREATE_CLUSTER, ask)
        refuse_what_never_fits(order, await last_seen(session))
        operation = OperationId(str(uuid4()))
        plan, private = plans.draw(
            order, release, domain=building.domain, workers_at_once=building.workers_at_once
        )
        if ask.storage:
            plan = plan.model_copy(update={"storage": shared(plan.uid, building.pools)})
        await self._database.hold(session)
        _add_rows(session, order, plan, operation, ask)
        self._vault.add(session, ports.ssh_key(plan.uid), private)
        subject = f"cluster/{plan.name}"
        row = operations.record(session, operation, Kind.CREATE_CLUSTER, subject, plan, ask)
        return operations.as_operation(row)

    @transaction
    async def request_delete(self, session: AsyncSession, name: str, ask: Ask) -> Deleted:
        """Stop the cluster and whatever is being done to it. Asking again while it stops leads
        to the same operation, unless force is wished for and that one has none: then it is pushed
        aside as any other. The kubeconfig is withdrawn at once."""
        if earlier := await answers.answered(session, ask):
            return Deleted(operation=operations.as_operation(earlier))
        cluster, running = await held(session, ask.tenant, name)
        if cluster.operation != running.id:  # somebody else's delete came first
            running = await operations.locked(session, cluster.operation)
        stops = cluster.phase == Phase.STOPPING and running.ended is None
        if stops and (not ask.force or _is_forced(running)):
            plans.refuse_otherwise(running, ask)
            answers.remember(session, ask, running.id)
            return Deleted(operation=operations.as_operation(running))
        plan = await _as_it_stands(session, running)
        refuse_to_choose(name, plan.storage, settled=settles(ask, name))
        plans.refuse_to_promise(running, ask)
        superseded = _supersede(session, running)
        operation = OperationId(str(uuid4()))
        cluster.phase = advance(name, Phase(cluster.phase), Phase.STOPPING)
        cluster.message = f"delete: accepted (op {operation})"
        cluster.published = False
        cluster.proposal = ""
        cluster.operation = operation
        cluster.changed = now()
        await session.flush()  # the old operation lets go of the subject before the new holds it
        row = operations.record(
            session,
            operation,
            Kind.DELETE_CLUSTER,
            f"cluster/{name}",
            plan,
            ask,
            supersedes=superseded,
        )
        return Deleted(operation=operations.as_operation(row), superseded=superseded)

    async def get(self, name: str) -> Cluster:
        """The living cluster of that name. Those asked for at the same time are read together."""
        return await self._gather.ask(name)

    @reading
    async def _read(
        self, session: AsyncSession, names: Sequence[str]
    ) -> Sequence[Cluster | Exception]:
        connection = await session.connection()
        rows = await connection.execute(LIVING_BY_NAME, {"names": set(names)})
        found = {row.name: as_cluster(row) for row in rows}
        return [found.get(name) or unknown(name) for name in names]

    @reading
    async def all(self, session: AsyncSession) -> list[Cluster]:
        """Every living cluster, by name."""
        query = select(CLUSTERS).where(IS_LIVING).order_by(CLUSTERS.c.name)
        return [as_cluster(row) for row in await session.execute(query)]

    @reading
    async def nodes(self, session: AsyncSession, name: str) -> ClusterNodes:
        """The cluster's slots, control plane first, then pool by pool, the oldest first."""
        query = (
            select(SlotRow)
            .join(ClusterRow, ClusterRow.uid == SlotRow.cluster)
            .where(ClusterRow.name == name, IS_LIVING)
            .outerjoin(
                PoolRow, (PoolRow.cluster == SlotRow.cluster) & (PoolRow.name == SlotRow.pool)
            )
            .order_by(func.coalesce(PoolRow.ordinal, -1), SlotRow.ordinal)
        )
        found = tuple(slots.slot_state(row) for row in await session.scalars(query))
        there = select(ClusterRow.uid).where(ClusterRow.name == name, IS_LIVING)
        if not found and await session.scalar(there) is None:
            raise unknown(name)
        shown = unheard(found) if await slots.are_unheard(session, name) else found
        return ClusterNodes(cluster=name, slots=shown)

    @transaction
    async def reach(self, session: AsyncSession, reached: Reached) -> None:
        """Book how far a workflow has come. A repeat changes nothing, and a workflow whose place
        was taken ends its own operation and leaves the cluster alone."""
        row = await operations.locked(session, reached.operation)
        if row.ended is not None:
            return
        reached = recording.signed(row, reached)
        cluster = await session.get_one(ClusterRow, row.cluster, with_for_update=True)
        row.headline = reached.headline or row.headline
        lacking = ""
        if cluster.operation == row.id:
            if row.kind in SETTLED and reached.stage is not None:
                plan = ClusterPlan.model_validate_json(row.plan)
                upgrade = plan.upgrade if row.kind == Kind.UPGRADE_CLUSTER else None
                if upgrade and not await _begun(session, row, upgrade):
                    cluster.pending = ""
                phase, lacking = await slots.settle(session, cluster, plan)
                reached = reached.model_copy(update={"phase": phase})
            if reached.phase is not None:
                cluster.phase = advance(cluster.name, Phase(cluster.phase), reached.phase)
            if reached.undone and row.kind == Kind.CREATE_CLUSTER and reached.phase is Phase.ERROR:
                cluster.published = False  # nothing answers there any more
            elif reached.published:
                cluster.published = True
            cluster.message = operations.message(row, reached.note, lacking)
            if reached.stage is not None:  # what was seen was seen before what is done now
                cluster.trouble = ""
                watch = update(WatchRow).where(WatchRow.cluster == cluster.uid)
                anew = {"silent_since": None, "why": ""} if await steps.heard(session, row) else {}
                await session.execute(watch.values(led="", **anew))
            cluster.proposal = ""
            cluster.changed = now()
        if reached.stage is not None:
            await steps.close(session, row.id)
            note = reached.note
            if left := await slots.left_behind(session, cluster.uid, reached.left_behind):
                row.left_behind = LEFT_BEHIND.dump_json(left).decode()
                note += f"; left behind: {'; '.join(each.said for each in left)}"
            operations.end(session, row, reached.stage, note, reached.failure)
        elif reached.note:
            journal.write(session, row, reached.note)
        if reached.phase is Phase.GONE and cluster.operation == row.id:
            await self._bury(session, cluster)

    async def _bury(self, session: AsyncSession, cluster: ClusterRow) -> None:
        """Keep the record that there was a cluster; its parts and secrets go."""
        for table in (SlotRow, PoolRow, WatchRow):
            await session.execute(delete(table).where(table.cluster == cluster.uid))
        await self._vault.shred(session, f"cluster/{cluster.uid}/")


async def _begun(session: AsyncSession, row: OperationRow, upgrade: Upgrade) -> bool:
    """Whether an upgrade has touched a node: one that has not is no upgrade that is to be
    finished."""
    return upgrade.resumed or await steps.begun(session, row.id, TOUCHES)


async def _as_it_stands(session: AsyncSession, latest: OperationRow) -> ClusterPlan:
    """The cluster's plan with every slot there is now, whatever operations made of it."""
    rows = await slots.slots_of(session, latest.cluster)
    plan = ClusterPlan.model_validate_json(latest.plan)
    return plan.afresh(slots.slot_state(row).slot for row in rows)


async def held(session: AsyncSession, tenant: str, name: str) -> tuple[ClusterRow, OperationRow]:
    """A living cluster and the operation it named when it was found, held against every other
    writer. The operation is locked first, as the marks do, or the two would deadlock."""
    cluster = await living(session, tenant, name)
    if cluster is None:
        raise unknown(name)
    operation = await operations.locked(session, cluster.operation)
    await session.refresh(cluster, with_for_update=True)
    if cluster.phase == Phase.GONE:
        raise unknown(name)
    return cluster, operation


async def opened(session: AsyncSession, tenant: str, name: str, kind: Kind) -> ClusterRow:
    """A living cluster, held, if a change of this kind may be begun."""
    cluster, latest = await held(session, tenant, name)
    rests = cluster.operation == latest.id and latest.ended is not None
    admission.refuse(kind, name, Phase(cluster.phase), cluster.operation, rests=rests)
    return cluster


def hand_over(cluster: ClusterRow, operation: OperationId, said: str) -> None:
    """Let an operation have the say about a cluster that stands. What was seen before is no news
    then, nor what was proposed because of it."""
    cluster.phase = advance(cluster.name, Phase(cluster.phase), Phase.RECONCILING)
    cluster.message, cluster.trouble, cluster.proposal = said, "", ""
    cluster.operation = operation
    cluster.changed = now()


async def living(session: AsyncSession, tenant: str, name: str) -> ClusterRow | None:
    """The cluster that has the name now."""
    return await session.scalar(
        select(ClusterRow).where(ClusterRow.tenant == tenant, ClusterRow.name == name, IS_LIVING)
    )


def _taken(cluster: ClusterRow) -> AlreadyExists:
    operation = cluster.operation
    watch, delete_it = f"windlass op watch {operation}", f"windlass cluster delete {cluster.name}"
    instead = {
        Phase.PROVISIONING: f"{watch} to see it come along, {delete_it} to call it off",
        Phase.STOPPING: f"wait until it is gone: {watch}",
    }.get(Phase(cluster.phase), delete_it)
    return AlreadyExists(
        f"cluster {cluster.name} already exists",
        subject=cluster.name,
        do=f"{instead}, or choose another name",
        facts={"operation": operation, "state": cluster.phase},
    )


def unknown(name: str) -> NotFound:
    """There is no living cluster of that name."""
    return NotFound(
        f"there is no cluster {name}",
        subject=name,
        reason="CLUSTER_NOT_FOUND",
        do="windlass cluster list shows the clusters there are",
    )


def _add_rows(
    session: AsyncSession,
    order: ClusterOrder,
    plan: ClusterPlan,
    operation: OperationId,
    ask: Ask,
) -> None:
    moment = now()
    session.add(
        ClusterRow(
            uid=plan.uid,
            tenant=ask.tenant,
            name=plan.name,
            phase=Phase.PROVISIONING,
            message="queued",
            trouble="",
            version=plan.release.version,
            pending="",
            endpoint=plan.endpoint,
            published=False,
            operation=operation,
            policy=Policy.PROPOSE,
            proposal="",
            owner=ask.owner,
            created=moment,
            changed=moment,
        )
    )
    session.add_all(
        slots.pool_row(plan.uid, pool, ordinal) for ordinal, pool in enumerate(order.pools)
    )
    session.add_all(
        slots.slot_row(slot, ordinal, moment) for ordinal, slot in enumerate(plan.slots)
    )


def _supersede(session: AsyncSession, row: OperationRow) -> OperationId | None:
    """Take the subject away from the operation that holds it, if one does. One that never
    started has nothing to undo and ends here."""
    if row.ended is not None:
        return None
    begun = row.stage == Stage.RUNNING
    row.stage = Stage.SUPERSEDED
    if not begun:
        operations.end(session, row, Stage.SUPERSEDED, "superseded before it began", None)
        return None
    operations.release(row)
    journal.write(session, row, "superseded by a delete; undoing")
    return OperationId(row.id)


def _is_forced(row: OperationRow) -> bool:
    return ClusterPlan.model_validate_json(row.plan).forced


def said(row: Row[Any] | ClusterRow) -> str:
    """What is to be told of a cluster: what was seen of it, before what its operation said."""
    return "; ".join(filter(None, (seen(row), row.message, row.proposal)))[:MESSAGE_LENGTH]


def seen(row: Row[Any] | ClusterRow) -> str:
    """What was seen of a cluster that is not as it should be, if that still holds."""
    return str(row.trouble) if Phase(row.phase) in {*JUDGED, Phase.RECONCILING} else ""


def as_cluster(row: Row[Any] | ClusterRow) -> Cluster:
    return Cluster(
        uid=row.uid,
        name=row.name,
        phase=Phase(row.phase),
        message=said(row),
        version=row.version,
        pending=row.pending,
        endpoint=row.endpoint,
        published=row.published,
        operation=row.operation,
        owner=row.owner,
    )
