"""How much one developer may keep, and how many operations of one user may run.

What is there is counted in the transaction that adds to it. Those that add for one developer take
turns, so that two at the same moment are not both let in; those that add for one user do so as soon
as few more may run. Until then they need not, since no more than `MARGIN` are accepted at once."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Exhausted
from domain.operation import Ask, Kind
from domain.record import Noun, Record
from store import shelf
from store.edge_rows import AppInstRow, ClusterInstRow
from store.engine import OPERATIONS_PER_USER
from store.rows import LinkRow, OperationRow, RecordRow

EXCEEDED = "QUOTA_EXCEEDED"
MARGIN = 256
RETRY_SECONDS = 10

DELETES = frozenset(
    {
        *(Kind.DELETE_CLUSTER, Kind.DELETE_NODE_POOL, Kind.DELETE_POOL),
        *(Kind.DELETE_CLUSTERINST, Kind.DELETE_APPINST, Kind.DELETE_CLOUDLET),
    }
)
"""These count, but they give back what others wait for, and are not refused."""

_Condition: TypeAlias = ColumnElement[bool]

SIZES: dict[Noun, tuple[type[Any], _Condition, ColumnElement[int]]] = {
    Noun.APP: (
        RecordRow,
        (RecordRow.noun == Noun.APP) & (RecordRow.key == LinkRow.key),
        func.length(RecordRow.value),
    ),
    Noun.CLUSTER_INST: (
        ClusterInstRow,
        ClusterInstRow.key == LinkRow.key,
        func.length(ClusterInstRow.facts),
    ),
    Noun.APP_INST: (AppInstRow, AppInstRow.key == LinkRow.key, func.length(AppInstRow.facts)),
}
"""What is counted: the rows of each, how they are found by a link, and how large one is."""


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
    if before is None or len(record.value) > len(before.value):
        named = [link.key for link in record.links if link.to is Noun.DEVELOPER]
        await refuse_more(session, quota, named, is_new=before is None)


async def refuse_more(
    session: AsyncSession,
    quota: Quota,
    developers: Iterable[str],
    *,
    is_new: bool = True,
    later: int = 0,
) -> None:
    """The same for these developers, by their keys, of whom something is written by now. `later`:
    so many more records will follow from it."""
    if quota is UNLIMITED:
        return
    for developer in sorted(set(developers)):
        await shelf.alone(session, f"quota of {developer}")
        used = await _used(session, developer)
        if is_new:
            _refuse(developer, "records", used.records + later, quota.records)
        _refuse(developer, "bytes", used.size, quota.size)


async def refuse_more_running(session: AsyncSession, kind: Kind, ask: Ask) -> None:
    """Exhausted if as many operations run of whoever asks as may."""
    most: int | None = session.info.get(OPERATIONS_PER_USER)
    if most is None or kind in DELETES:
        return
    count = await _running(session, ask)
    if count + MARGIN >= most:
        await shelf.alone(session, f"operations of {ask.tenant} {ask.caller}")
        count = await _running(session, ask)
    if count >= most:
        raise Exhausted(
            f"{count} operations of {ask.caller} run, and no more may",
            subject=ask.caller,
            reason="TOO_MANY_OPERATIONS",
            do="wait until some have ended (windlass op list), or have an operator raise "
            "WINDLASS_LIMITS__OPERATIONS_PER_USER",
            retry_seconds=RETRY_SECONDS,
        )


async def _running(session: AsyncSession, ask: Ask) -> int:
    """Those that are part of another do not count."""
    query = select(func.count()).where(
        OperationRow.requester == ask.caller,
        OperationRow.ended.is_(None),
        OperationRow.tenant == ask.tenant,
        OperationRow.parent == "",
    )
    return await session.scalar(query) or 0


async def _used(session: AsyncSession, developer: str) -> Used:
    await session.flush()
    found = [await _used_by(session, noun, developer) for noun in SIZES]
    return Used(sum(each.records for each in found), sum(each.size for each in found))


async def _used_by(session: AsyncSession, noun: Noun, developer: str) -> Used:
    rows, same, size = SIZES[noun]
    query = (
        select(func.count(), func.coalesce(func.sum(size), 0))
        .select_from(LinkRow)
        .join(rows, same)
        .where(LinkRow.noun == noun, _of(noun, developer))
    )
    count, total = (await session.execute(query)).one()
    return Used(int(count), int(total))


def _of(noun: Noun, developer: str) -> _Condition:
    """Whether a link says that something is this developer's. An instance is the developer's whose
    app it names, and the key of an app begins with that of its developer."""
    if noun is not Noun.APP_INST:
        return (LinkRow.target_noun == Noun.DEVELOPER) & (LinkRow.target_key == developer)
    first = f'{{"developer_key":{developer}'
    return (
        (LinkRow.target_noun == Noun.APP)
        & (LinkRow.target_key >= f"{first},")  # what follows is a comma or a brace
        & (LinkRow.target_key < f"{first}~")
    )


def _refuse(developer: str, what: str, used: int, most: int) -> None:
    if used > most:
        raise Exhausted(
            f"the developer would keep {used} {what}, and may keep {most}",
            subject=developer,
            reason=EXCEEDED,
            do="delete what is not needed, or have an operator raise the quota of developers",
        )
