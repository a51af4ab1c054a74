"""What holds of the rows after every transaction, whoever wrote them."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from sqlalchemy import select

from domain.cluster import Phase
from domain.operation import ACTIVE, Stage
from store.engine import Database
from store.rows import (
    AnswerRow,
    ClusterRow,
    JournalRow,
    OperationRow,
    PoolRow,
    Row,
    SecretRow,
    SlotRow,
    StepRow,
    WatchRow,
)

OVER = frozenset({Stage.SUCCEEDED, Stage.FAILED, Stage.CANCELLED})

PARTS: tuple[type[Row], ...] = (
    *(ClusterRow, PoolRow, SlotRow, WatchRow, SecretRow),
    *(OperationRow, StepRow, JournalRow, AnswerRow),
)


async def broken(database: Database) -> list[str]:
    """Every law that the rows break, in words; none if all is well."""
    async with database.session(writes=False) as session:
        rows = {part: list(await session.scalars(select(part))) for part in PARTS}
    return [*_of_clusters(rows), *_of_operations(rows), *_of_journals(rows)]


def _of_clusters(rows: dict[type[Row], list]) -> Iterator[str]:  # type: ignore[type-arg]
    operations = {row.id: row for row in rows[OperationRow]}
    living = {row.uid: row for row in rows[ClusterRow] if row.phase != Phase.GONE}
    for (tenant, name), count in Counter((r.tenant, r.name) for r in living.values()).items():
        if count > 1:
            yield f"{count} living clusters of {tenant} are called {name}"
    for cluster in living.values():
        latest = operations.get(cluster.operation)
        if latest is None:
            yield f"{cluster.name} names an operation that is not there"
        elif latest.stage == Stage.SUPERSEDED and latest.ended is None:
            yield f"{cluster.name} is held by an operation that was pushed aside"
        if cluster.phase == Phase.STOPPING and cluster.published:
            yield f"{cluster.name} is stopping and its kubeconfig is given out"
        slots = Counter(row.pool for row in rows[SlotRow] if row.cluster == cluster.uid)
        for pool in (row for row in rows[PoolRow] if row.cluster == cluster.uid):
            if cluster.phase == Phase.RUNNING and pool.wanted != slots[pool.name]:
                yield f"{cluster.name} runs, and {pool.name} has {slots[pool.name]} slots"
        if f"cluster/{cluster.uid}/ssh-key" not in {row.reference for row in rows[SecretRow]}:
            yield f"{cluster.name} has no login key"
    for part in (PoolRow, SlotRow, WatchRow):
        for row in rows[part]:
            if row.cluster not in living:
                named = getattr(row, "name", row.cluster)
                yield f"{part.__tablename__} {named} belongs to no living cluster"
    for row in rows[SecretRow]:
        if row.reference.startswith("cluster/") and row.reference.split("/")[1] not in living:
            yield f"the secret {row.reference} belongs to no living cluster"


def _of_operations(rows: dict[type[Row], list]) -> Iterator[str]:  # type: ignore[type-arg]
    operations = {row.id: row for row in rows[OperationRow]}
    active = Counter(row.subject for row in operations.values() if row.stage in ACTIVE)
    yield from (f"{count} operations hold {it}" for it, count in active.items() if count > 1)
    done: dict[str, int] = defaultdict(int)
    for step in rows[StepRow]:
        done[step.operation] += step.seconds is not None and not step.key.startswith("undo ")
        if step.operation not in operations:
            yield f"the step {step.key} belongs to no operation"
    for row in operations.values():
        if row.ended is None and row.stage in OVER:
            yield f"{row.id} is {row.stage} and has not ended"
        if row.ended is not None and row.stage in ACTIVE:
            yield f"{row.id} has ended and is {row.stage}"
        if row.steps_done != done[row.id]:
            yield f"{row.id} counts {row.steps_done} steps done, and {done[row.id]} are"
    for answer in rows[AnswerRow]:
        if answer.operation and answer.operation not in operations:
            yield f"the request id {answer.key} leads to no operation"


def _of_journals(rows: dict[type[Row], list]) -> Iterator[str]:  # type: ignore[type-arg]
    journals: dict[str, list[JournalRow]] = defaultdict(list)
    for line in rows[JournalRow]:
        journals[line.operation].append(line)
    for row in rows[OperationRow]:
        lines = sorted(journals.pop(row.id, []), key=lambda line: line.number)
        if [line.number for line in lines] != list(range(1, row.events + 1)):
            yield f"the journal of {row.id} has a gap before {row.events}"
        if [line.last for line in lines] != [False] * (len(lines) - 1) + [row.ended is not None]:
            yield f"the journal of {row.id} ends at the wrong line"
        if [line.time for line in lines] != sorted(line.time for line in lines):
            yield f"the journal of {row.id} goes back in time"
    yield from (f"a journal belongs to no operation: {operation}" for operation in journals)
