"""Operations on instances, for their workflows: taken up, looked after, gone on with, ended.

Every method may be asked again: what is done is found done."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain import awaiting
from domain.appinst import AppInst
from domain.awaiting import Outlook, Verdict
from domain.clusterinst import ClusterInst
from domain.errors import Conflict, Failure
from domain.instance_plan import InstancePlan
from domain.operation import OperationId
from domain.override import Override
from domain.record import Noun
from domain.refusal import Refusal
from domain.tracking import CLUSTER_MOVES, Phase, is_free_to_delete
from store import appinsts, cloudlets, clusterinsts, operations, settling, siting, tracked
from store.edge_rows import CloudletRefsRow, ClusterInstRow
from store.engine import Database, Store, reading, transaction
from store.rows import OperationRow, now
from store.tracked import AnyRow, Requested, Terms

BUSY = frozenset({Refusal.CLUSTERINST_BUSY.name, Refusal.APPINST_BUSY.name})
"""Why something cannot be deleted now and may be soon."""


class Tracking(Store):
    def __init__(self, database: Database, terms: Terms) -> None:
        super().__init__(database)
        self._terms = terms

    @transaction
    async def settle(self, session: AsyncSession, operation: OperationId) -> Outlook:
        """End an operation if its instance is as it was wanted, or is left as it is."""
        row, plan = await _read(session, operation)
        return await self._settled(session, row, plan)

    @transaction
    async def place(self, session: AsyncSession, operation: OperationId) -> Outlook:
        """Write the instance that has waited for its cluster, and settle. A refusal is an
        outlook too: trying again would end the same way."""
        row, plan = await _read(session, operation)
        if row.ended is None:
            await siting.place(session, row, plan, self._terms)
        return await self._settled(session, row, plan)

    @transaction
    async def proceed(self, session: AsyncSession, operation: OperationId) -> Outlook:
        """Go on with the delete of a cluster in which nothing is left, and settle."""
        row, plan = await _read(session, operation)
        await session.get(CloudletRefsRow, plan.cloudlet, with_for_update=True)
        if row.ended is None:
            await clusterinsts.proceed(session, row, plan, self._terms)
        return await self._settled(session, row, plan)

    @reading
    async def inside(self, session: AsyncSession, operation: OperationId) -> list[str]:
        """What has to go before a cluster may, by its keys; nothing if it may go on."""
        _, plan = await _read(session, operation)
        row = await session.get(ClusterInstRow, plan.key)
        if row is None or row.operation != operation or row.phase != Phase.DELETE_PREPARE:
            return []
        return [tenant.key for tenant, _ in await settling.tenants(session, plan.key)]

    @transaction
    async def evict(
        self, session: AsyncSession, operation: OperationId, noun: Noun, key: str
    ) -> Outlook:
        """Have what is in the way deleted by an operation of its own; what is in a cluster whatever
        its resource manager says. Asked again it is the same operation. While it is busy, and there
        is time, it is to be waited for."""
        parent, plan = await _read(session, operation)
        await session.get(CloudletRefsRow, plan.cloudlet, with_for_update=True)
        row = await tracked.held(session, noun, key)
        if parent.ended is not None or row is None:
            return Outlook(verdict=Verdict.DONE)
        if mine := await _child(session, row.operation, operation):
            return Outlook(verdict=Verdict.WAIT, nested=mine)
        try:
            asked = await self._dismiss(session, parent, plan, row)
        except Conflict as error:
            patience = self._terms.patience
            if error.reason not in BUSY or now() >= parent.created + patience.clusterinst_delete:
                raise
            pause = patience.autodelete_retry.total_seconds()
            return Outlook(verdict=Verdict.WAIT, left_seconds=pause)
        return Outlook(verdict=Verdict.WAIT, nested=asked.operation.id)

    async def _dismiss(
        self, session: AsyncSession, parent: OperationRow, plan: InstancePlan, row: AnyRow
    ) -> Requested:
        ask, parent_id = tracked.part_of(parent), parent.id
        if isinstance(row, ClusterInstRow):
            cluster = ClusterInst.model_validate_json(row.facts).key
            await tracked.refuse_unready(session, cluster.cloudlet, Override.NONE)
            return await clusterinsts.delete(
                session, cluster, Override.NONE, ask, self._terms, parent=parent_id
            )
        override = Override.CRM_ERRORS if plan.noun is Noun.CLUSTER_INST else Override.NONE
        key = AppInst.model_validate_json(row.facts).key
        await tracked.refuse_unready(session, key.cluster.cloudlet, override)
        asked = await appinsts.delete(session, key, override, ask, self._terms, parent=parent_id)
        await session.flush()
        await tracked.tell(session, parent_id, awaiting.clearing(key.app))
        return asked

    @reading
    async def inhabitants(
        self, session: AsyncSession, operation: OperationId
    ) -> list[tuple[Noun, str]]:
        """What has to go before a cloudlet may: its clusters, then what is in none."""
        _, plan = await _read(session, operation)
        found = []
        for noun, row in tracked.ROWS.items():
            keys = select(row.key).where(row.cloudlet == plan.cloudlet).order_by(row.key)
            found += [(noun, key) for key in await session.scalars(keys)]
        return found

    @transaction
    async def demolish(self, session: AsyncSession, operation: OperationId) -> Outlook:
        """Take a cloudlet away on which nothing is left."""
        row, plan = await _read(session, operation)
        if row.ended is None:
            await cloudlets.remove(session, plan.key)
            await tracked.succeed(session, operation)
        return Outlook(verdict=Verdict.DONE)

    @transaction
    async def clear(self, session: AsyncSession, operation: OperationId) -> Outlook:
        """Have a cluster deleted that was made for what an operation has deleted, unless it is
        needed, or somebody does so already. Then the operation ends."""
        parent, plan = await _read(session, operation)
        await session.get(CloudletRefsRow, plan.cloudlet, with_for_update=True)
        row = await session.get(ClusterInstRow, plan.cluster, with_for_update=True)
        if parent.ended is not None:
            return Outlook(verdict=Verdict.OVER)
        if row is not None and (mine := await _child(session, row.operation, operation)):
            return Outlook(verdict=Verdict.WAIT, nested=mine)
        if row is None or not await _is_unused(session, row):
            await tracked.succeed(session, operation)
            return Outlook(verdict=Verdict.DONE)
        await tracked.tell(session, operation, awaiting.CLEARING_AUTO)
        key = ClusterInst.model_validate_json(row.facts).key
        await tracked.refuse_unready(session, key.cloudlet, plan.override)
        ask = tracked.part_of(parent)
        asked = await clusterinsts.delete(
            session, key, plan.override, ask, self._terms, parent=operation
        )
        return Outlook(verdict=Verdict.WAIT, nested=asked.operation.id)

    @transaction
    async def succeed(self, session: AsyncSession, operation: OperationId) -> None:
        """End an operation well, whatever became of what followed it."""
        row = await operations.locked(session, operation)
        if row.ended is None:
            await tracked.succeed(session, operation)

    @transaction
    async def take_back(
        self, session: AsyncSession, operation: OperationId, failure: Failure
    ) -> None:
        """Undo what can be undone of an operation, and end it."""
        row, plan = await _read(session, operation)
        await settling.take_back(session, row, plan, failure)

    @reading
    async def ended(self, session: AsyncSession, operation: OperationId) -> Outlook:
        """How an operation stands that another is made of."""
        row = await session.get_one(OperationRow, operation)
        failure = Failure.model_validate_json(row.failure) if row.failure else None
        return Outlook(verdict=Verdict.WAIT if row.ended is None else Verdict.OVER, failure=failure)

    async def _settled(
        self, session: AsyncSession, operation: OperationRow, plan: InstancePlan
    ) -> Outlook:
        if plan.override.forgives:
            await session.get(CloudletRefsRow, plan.cloudlet, with_for_update=True)
        row = await tracked.held(session, plan.noun, plan.key)
        operation = await operations.locked(session, operation.id)
        return await settling.settle(session, operation, plan, row)


async def _read(session: AsyncSession, operation: OperationId) -> tuple[OperationRow, InstancePlan]:
    """An operation and its plan. It is not held yet: its instance comes before."""
    row = await session.get_one(OperationRow, operation)
    return row, InstancePlan.model_validate_json(row.plan)


async def _child(session: AsyncSession, operation: str, parent: OperationId) -> str:
    """An operation, if it is part of another and has not ended."""
    row = await session.get(OperationRow, operation)
    mine = row is not None and row.parent == parent and row.ended is None
    return operation if mine else ""


async def _is_unused(session: AsyncSession, row: ClusterInstRow) -> bool:
    """Whether a cluster was made for an app's instance, rests, and holds nothing that stays."""
    if not ClusterInst.model_validate_json(row.facts).auto:
        return False
    if not is_free_to_delete(Phase(row.phase), CLUSTER_MOVES, Override.NONE):
        return False
    if row.phase == Phase.DELETE_PREPARE or await tracked.active(
        session, Noun.CLUSTER_INST, row.key
    ):
        return False
    inside = await settling.tenants(session, row.key)
    return all(app.auto_delete for _, app in inside)
