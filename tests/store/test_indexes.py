"""Queries of tables that grow without end are answered by an index, on both databases."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from domain.errors import NotFound
from domain.operation import Kind, OperationId
from store.engine import OPERATIONS_PER_USER, Database
from store.quotas import refuse_more_running
from tests.store.desk import Desk, ask

Statement = tuple[str, Any]


async def shred(desk: Desk) -> None:
    async with desk.database.session(writes=True) as session:
        await desk.vault.shred(session, "cluster/none/")


async def fence(desk: Desk) -> None:
    operation = await desk.creating()
    await desk.operations.fence_others(operation.id)


async def lines(desk: Desk) -> None:
    operation = await desk.creating()
    assert await desk.lines(operation.id)


async def got(desk: Desk) -> None:
    with pytest.raises(NotFound):
        await desk.clusters.get("none")


async def limited(desk: Desk) -> None:
    async with desk.database.session(writes=True) as session:
        session.info[OPERATIONS_PER_USER] = 1000
        await refuse_more_running(session, Kind.CREATE_CLUSTER, ask())


HOT: dict[str, tuple[Callable[[Desk], Awaitable[Any]], str, str]] = {
    "secrets below a prefix": (shred, "DELETE FROM secrets", "secrets"),
    "operations of a cluster": (fence, "operations.cluster =", "ix_operations_cluster"),
    "operations of a user that run": (
        limited,
        "requester =",
        "ix_operations_requester_ended",
    ),
    "operations of a subject, the newest first": (
        lambda desk: desk.operations.page(size=10, subject="cluster/hello"),
        "operations.subject =",
        "ix_operations_subject_created_id",
    ),
    "operations, the newest first": (
        lambda desk: desk.operations.page(size=10),
        "ORDER BY operations.created",
        "ix_operations_created_id",
    ),
    "all clusters that live": (
        lambda desk: desk.clusters.all(),
        "clusters.phase != 'gone'",
        "uq_clusters_living_name",
    ),
    "a cluster by its name": (
        got,
        "clusters.name IN",
        "uq_clusters_living_name",
    ),
    "lines of a journal": (
        lines,
        "FROM journal",
        "journal",
    ),
    "steps of an operation": (
        lambda desk: desk.operations.steps(OperationId("none")),
        "FROM steps",
        "steps",
    ),
}
"""What is asked, words of the statement that is meant, and the index that has to answer it."""


@contextmanager
def asked(words: str) -> Iterator[list[Statement]]:
    """The statements with these words, as the database is given them."""
    found: list[Statement] = []

    def take(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if words in " ".join(statement.split()):
            found.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", take)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", take)


async def explained(database: Database, statement: Statement) -> str:
    """How the database would answer it, with so many rows that it matters."""
    words, parameters = statement
    async with database.engine.connect() as connection:
        if database.is_sqlite:
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {words}", parameters)
            return "\n".join(row[-1] for row in rows)
        await connection.execute(text("SET LOCAL enable_seqscan = off"))
        await connection.execute(text("SET LOCAL enable_sort = off"))
        rows = await connection.exec_driver_sql(f"EXPLAIN {words}", parameters)
        return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("query", HOT)
async def test_b8_a_hot_query_reads_no_table_from_end_to_end(desk: Desk, query: str) -> None:
    asking, words, index = HOT[query]
    with asked(words) as statements:
        await asking(desk)
    assert statements
    for statement in statements:
        plan = await explained(desk.database, statement)
        assert "Seq Scan" not in plan
        assert not any(line.startswith("SCAN") and "USING" not in line for line in plan.split("\n"))
        assert index in plan
        if query == "secrets below a prefix":  # not the whole index, filtered
            assert "Index Cond" in plan or "SEARCH secrets" in plan
