"""How much one developer may keep: so many records, and so many bytes of them.

What is there is counted in the transaction that adds to it. Two that add at the same moment may
both be let in, so that a quota is exceeded by no more than what comes at once."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Exhausted
from domain.record import Noun, Record
from store.rows import LinkRow, RecordRow


class Quota(NamedTuple):
    records: int
    size: int
    """In bytes."""


class Used(NamedTuple):
    records: int
    size: int


UNLIMITED = Quota(2**62, 2**62)


async def refuse_excess(
    session: AsyncSession, quota: Quota, record: Record, before: Record | None = None
) -> None:
    """Exhausted if the developers that a record names keep more than they may, now that it is
    written. `before` is what it took the place of: who keeps too much may still make it smaller."""
    grew = before is None or len(record.value) > len(before.value)
    if quota is UNLIMITED or not grew:
        return
    for link in record.links:
        if link.to is Noun.DEVELOPER:
            used = await _used(session, link.key)
            if before is None:
                _refuse(link.key, "records", used.records, quota.records)
            _refuse(link.key, "bytes", used.size, quota.size)


async def _used(session: AsyncSession, developer: str) -> Used:
    same: ColumnElement[bool] = (RecordRow.noun == LinkRow.noun) & (RecordRow.key == LinkRow.key)
    query = (
        select(func.count(), func.coalesce(func.sum(func.length(RecordRow.value)), 0))
        .select_from(LinkRow)
        .join(RecordRow, same)
        .where(LinkRow.target_noun == Noun.DEVELOPER, LinkRow.target_key == developer)
    )
    records, size = (await session.execute(query)).one()
    return Used(int(records), int(size))


def _refuse(developer: str, what: str, used: int, most: int) -> None:
    if used > most:
        raise Exhausted(
            f"the developer would keep {used} {what}, and may keep {most}",
            subject=developer,
            reason="QUOTA_EXCEEDED",
            do="delete what is not needed, or have an operator raise the quota of developers",
        )
