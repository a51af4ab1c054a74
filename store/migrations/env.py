"""Runs revisions over the connection it is handed. No address is read and no engine made here:
`store.schema` is the way in, for processes, for tests and for drafting alike."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy.types import TypeDecorator

from store import edge_rows, storage_rows, window_rows  # noqa: F401 (so that Row.metadata knows)
from store.rows import Row


def _plain(kind: str, thing: Any, _drafting: AutogenContext) -> str | Literal[False]:
    """A revision outlives our own column types, so it names the database's types only."""
    return f"sa.{thing.impl!r}" if kind == "type" and isinstance(thing, TypeDecorator) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Row.metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
    render_item=_plain,
)
with context.begin_transaction():
    context.run_migrations()
