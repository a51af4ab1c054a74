"""Operations that nobody asks for any more, what is written of them, and clusters that are gone."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, delete, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from domain.cluster import Phase
from domain.errors import Conflict
from domain.operation import ACTIVE, Kind, Stage
from store import observations
from store.edge_rows import AppInstRow, ClusterInstRow
from store.engine import Store, transaction
from store.rows import AnswerRow, ClusterRow, JournalRow, OperationRow, StepRow, now

AT_ONCE, ROUNDS = 50, 20
"""So many go in one transaction, since each has a long journal, and so often in a row."""


class Forgetting(Store):
    async def operations(self, older_than: timedelta) -> None:
        """Remove operations that ended so long ago, those of the longest ago first."""
        for _ in range(ROUNDS):
            if await self._some(older_than) < AT_ONCE:
                return

    async def clusters(self, older_than: timedelta) -> None:
        """Remove the records of clusters that have been gone for so long, the oldest first."""
        for _ in range(ROUNDS):
            if await self._some_clusters(older_than) < AT_ONCE:
                return

    @transaction
    async def _some_clusters(self, session: AsyncSession, older_than: timedelta) -> int:
        """What an operation names stays for as long as that is remembered, as one is that left
        something behind; and what a pool in Ceph is marked with, since nothing else says that we
        gave that uid out."""
        marked = await observations.owners(session)
        named = exists().where(OperationRow.cluster == ClusterRow.uid)
        old = (
            select(ClusterRow.uid)
            .where(
                ClusterRow.phase == Phase.GONE,
                ClusterRow.changed < now() - older_than,
                ClusterRow.uid.not_in(marked),
                ~named,
            )
            .order_by(ClusterRow.changed)
            .limit(AT_ONCE)
        )
        found = (await session.scalars(old)).all()
        await session.execute(delete(ClusterRow).where(ClusterRow.uid.in_(found)))
        return len(found)

    @transaction
    async def _some(self, session: AsyncSession, older_than: timedelta) -> int:
        """The latest of what stands stays: a cluster's plan says what a delete has to give back. So
        does one that left something behind, since nothing else says what, and one that made a pool
        which is still there, since nothing else says that it is ours."""
        standing = (
            select(ClusterRow.operation).where(ClusterRow.phase != Phase.GONE),
            select(ClusterInstRow.operation),
            select(AppInstRow.operation),
        )
        old = (
            select(OperationRow.id)
            .where(
                OperationRow.stage.not_in(ACTIVE),
                OperationRow.ended < now() - older_than,
                OperationRow.left_behind == "",
                _holds_no_pool(),
                *(OperationRow.id.not_in(latest) for latest in standing),
            )
            .order_by(OperationRow.ended)
            .limit(AT_ONCE)
        )
        found = (await session.scalars(old)).all()
        await erase(session, found)
        return len(found)


async def refuse_needed(session: AsyncSession, row: OperationRow) -> None:
    """Refuse to forget what is needed: of a cluster that lives the latest, whose plan says what a
    delete has to give back; of a pool that is there the one that made it, which says whose it
    is."""
    using = (ClusterRow.operation == row.id, ClusterRow.phase != Phase.GONE)
    if name := await session.scalar(select(ClusterRow.name).where(*using)):
        raise Conflict(
            f"operation {row.id} is the latest of cluster {name} and cannot be deleted",
            subject=row.id,
            reason="OPERATION_IN_USE",
            do=f"windlass cluster delete {name}, if the cluster is to go as well",
            facts={"operation": row.id, "cluster": name},
        )
    made = select(OperationRow.id).where(OperationRow.id == row.id, ~_holds_no_pool())
    if await session.scalar(made):
        raise Conflict(
            f"operation {row.id} made {row.subject}, and says whose it is",
            subject=row.id,
            reason="OPERATION_IN_USE",
            do="windlass storage pool delete, if the pool is to go as well",
            facts={"operation": row.id, "subject": row.subject},
        )


def _holds_no_pool() -> ColumnElement[bool]:
    """Of those that made a pool in Ceph: whether it was deleted since."""
    later = aliased(OperationRow)
    deleted = exists().where(
        later.subject == OperationRow.subject,
        later.kind == Kind.DELETE_POOL,
        later.stage == Stage.SUCCEEDED,
        later.created > OperationRow.created,
    )
    made = (OperationRow.kind == Kind.CREATE_POOL) & (OperationRow.stage == Stage.SUCCEEDED)
    return or_(~made, deleted)


async def erase(session: AsyncSession, which: Sequence[str]) -> None:
    """Remove operations with all that is written of them."""
    for table in (JournalRow, StepRow, AnswerRow):
        await session.execute(delete(table).where(table.operation.in_(which)))
    await session.execute(delete(OperationRow).where(OperationRow.id.in_(which)))
