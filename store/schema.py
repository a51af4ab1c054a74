"""Brings a database to the tables this code was written for, and says whether it is there."""

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Failed, Unavailable
from store import (  # so that Row.metadata knows of them
    access_rows,  # noqa: F401
    edge_rows,  # noqa: F401
    node_rows,  # noqa: F401
    probe,  # noqa: F401
    storage_rows,  # noqa: F401
    window_rows,  # noqa: F401
)
from store.engine import Database, Store, reading, transaction

MIGRATIONS = Path(__file__).parent / "migrations"

ONE_AT_A_TIME = {
    False: text("SELECT pg_advisory_xact_lock(hashtext('windlass schema'))"),
    True: text("SELECT 1"),
}
"""What waits until nobody else changes the tables. On SQLite any first statement does."""


def config(connection: Connection | None = None) -> Config:
    """What alembic needs to know. It comes from no file, so it is the same wherever we run."""
    made = Config(attributes={"connection": connection})
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    made.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    return made


async def upgrade(url: str) -> str:
    """Bring a database to the newest revision, whatever it has now, and say which that is.

    All of it is one transaction on either database, so it is done or has not begun; two who
    start at once take turns. For SQLite the file is made, and the directory it is in."""
    database = Database(url, connections=1, answer_seconds=None)
    try:
        if database.is_sqlite and database.url.database:
            _make_room(Path(database.url.database))
        return await _Schema(database).upgrade()
    finally:
        await database.close()


async def at_head(database: Database) -> bool:
    """Whether a database has exactly the tables this code was written for."""
    return await _Schema(database).revision() == newest()


async def lacking(database: Database) -> str:
    """What keeps this program from working with a database, in a few words and with what to do.
    Empty: nothing does."""
    return _lacking(await _Schema(database).revision())


def _lacking(revision: str | None) -> str:
    if revision == newest():
        return ""
    if revision is None or revision in _known():
        return f"not migrated to {newest()}: run python -m store migrate"
    return (
        f"newer than this program: it is at {revision}, and this program knows revisions up to "
        f"{newest()}; run the release that brought it there, or restore the copy that was made "
        "before it"
    )


@cache
def _known() -> frozenset[str]:
    revisions = ScriptDirectory.from_config(config()).walk_revisions()
    return frozenset(revision.revision for revision in revisions)


@cache
def newest() -> str:
    """The newest revision there was when this process first asked."""
    head = ScriptDirectory.from_config(config()).get_current_head()
    if head is None:
        raise AssertionError(f"there are no revisions in {MIGRATIONS}")
    return head


async def draft(message: str) -> Path:
    """Write the revision that makes the newest one's tables into those of `rows`, to be read and
    corrected by a person."""
    with TemporaryDirectory() as folder:
        url = f"sqlite+aiosqlite:///{folder}/draft.db"
        await upgrade(url)
        database = Database(url, connections=1)
        try:
            async with database.engine.connect() as connection:
                return await connection.run_sync(_draft, message)
        finally:
            await database.close()


def _draft(connection: Connection, message: str) -> Path:
    number = int(re.sub(r"\D", "", newest())) + 1
    script: Any = command.revision(
        config(connection), message, autogenerate=True, rev_id=f"r{number:04}"
    )
    return Path(script.path)


def _make_room(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError as error:
        raise Unavailable(
            f"the directory {file.parent} cannot be made: {error.strerror}",
            reason="DATABASE_UNAVAILABLE",
            do="name another database as WINDLASS_DATABASE",
        ) from error


class _Schema(Store):
    @transaction
    async def upgrade(self, session: AsyncSession) -> str:
        await session.execute(ONE_AT_A_TIME[self._database.is_sqlite])
        connection = await session.connection()
        found = await connection.run_sync(_revision)
        if found is not None and found not in _known():
            raise Failed(f"the database is {_lacking(found)}", reason="DATABASE_NEWER")
        await connection.run_sync(lambda held: command.upgrade(config(held), "head"))
        return newest()

    @reading
    async def revision(self, session: AsyncSession) -> str | None:
        connection = await session.connection()
        return await connection.run_sync(_revision)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
