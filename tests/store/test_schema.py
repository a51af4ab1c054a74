import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.command import downgrade, upgrade
from pytest_alembic import Config as LawConfig
from pytest_alembic import MigrationContext, runner
from pytest_alembic import tests as laws
from sqlalchemy import Column, Connection, Inspector, Table, inspect, make_url, text

from domain.audit import Deed
from domain.errors import Failed, Unavailable
from store import schema
from store.audit import Audit
from store.engine import Database
from store.rows import Moment, Prose, Row, now
from tests.store.wire import wire_to

Law = Callable[[MigrationContext], None]

LAWS: tuple[Law, ...] = (
    laws.test_single_head_revision,
    laws.test_upgrade,
    laws.test_model_definitions_match_ddl,
    laws.test_up_down_consistency,
)


@pytest.fixture
async def empty(empty_url: str) -> AsyncIterator[Database]:
    database = Database(empty_url)
    yield database
    await database.close()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("test_"))
async def test_revisions_obey(law: Law, empty: Database) -> None:
    def obey(connection: Connection) -> None:
        with runner(LawConfig(alembic_config=schema.config(connection)), connection) as context:
            law(context)

    async with empty.engine.connect() as connection:
        await connection.run_sync(obey)


def _catalogue(connection: Connection) -> dict[str, Any]:
    """Everything a database says of its tables, partial indexes and all."""
    found: Inspector = inspect(connection)
    if connection.dialect.name == "sqlite":
        partial = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    else:
        partial = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    return {
        "tables": {
            name: {
                "columns": [
                    {**column, "type": str(column["type"])} for column in found.get_columns(name)
                ],
                "key": found.get_pk_constraint(name),
            }
            for name in found.get_table_names()
            if name != "alembic_version"
        },
        "indexes": {
            name: " ".join(definition.split())
            for name, definition in connection.execute(text(partial))
            if not name.startswith("alembic")
        },
    }


async def test_the_revisions_make_exactly_the_tables_of_the_rows(empty: Database) -> None:
    async with empty.engine.begin() as connection:
        await connection.run_sync(Row.metadata.create_all)
        wanted = await connection.run_sync(_catalogue)
        await connection.run_sync(Row.metadata.drop_all)
        await connection.run_sync(lambda held: upgrade(schema.config(held), "head"))
        assert await connection.run_sync(_catalogue) == wanted
    assert set(wanted["tables"]) == set(Row.metadata.tables)
    assert "WHERE" in wanted["indexes"]["uq_clusters_living_name"]
    assert "WHERE" in wanted["indexes"]["uq_operations_active_subject"]


async def test_going_back_leaves_nothing(empty: Database) -> None:
    async with empty.engine.begin() as connection:
        await connection.run_sync(lambda held: upgrade(schema.config(held), "head"))
        await connection.run_sync(lambda held: downgrade(schema.config(held), "base"))
        assert await connection.run_sync(_catalogue) == {"tables": {}, "indexes": {}}


async def test_upgrading_brings_any_database_to_the_newest_revision(empty_url: str) -> None:
    database = Database(empty_url)
    assert not await schema.at_head(database)
    assert await schema.upgrade(empty_url) == schema.newest()
    assert await schema.at_head(database)
    assert await schema.upgrade(empty_url) == schema.newest()
    assert await schema.at_head(database)
    await database.close()


async def test_all_who_upgrade_at_once_succeed(empty_url: str) -> None:
    assert set(await asyncio.gather(*(schema.upgrade(empty_url) for _ in range(4)))) == {
        schema.newest()
    }


async def test_an_unknown_revision_is_not_the_newest(database: Database) -> None:
    async with database.session(writes=True) as session:
        await session.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    try:
        assert not await schema.at_head(database)
    finally:
        async with database.session(writes=True) as session:
            await session.execute(
                text("UPDATE alembic_version SET version_num = :newest"),
                {"newest": schema.newest()},
            )


async def test_an_upgrade_makes_room_for_a_file(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/state/deep/windlass.db"
    await schema.upgrade(url)
    with pytest.raises(Unavailable, match="cannot be made"):
        await schema.upgrade(f"sqlite+aiosqlite:///{tmp_path}/state/deep/windlass.db/no/x.db")


async def test_a_database_that_is_away_is_not_upgraded_and_has_no_revision() -> None:
    url = "postgresql+asyncpg://ann:secret@127.0.0.1:1/windlass"
    with pytest.raises(Unavailable):
        await schema.upgrade(url)
    database = Database(url)
    with pytest.raises(Unavailable):
        await schema.at_head(database)
    await database.close()


async def test_a_draft_says_what_changed_rows_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copied = shutil.copytree(
        schema.MIGRATIONS, tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(schema, "MIGRATIONS", copied)
    table = Table("extra", Row.metadata, Column("seen", Moment), Column("said", Prose))
    try:
        drafted = await schema.draft("an extra table")
    finally:
        Row.metadata.remove(table)
    assert drafted.parent == copied / "versions"
    number = int(schema.newest().removeprefix("r"))
    assert drafted.name == f"r{number + 1:04}_an_extra_table.py"
    content = drafted.read_text()
    assert f'down_revision = "r{number:04}"' in content.replace("'", '"')
    assert "sa.Column('seen', sa.DateTime(timezone=True), nullable=True)" in content
    assert "sa.Column('said', sa.Text(), nullable=True)" in content
    assert "clusters" not in content


class Command:
    """`python -m store`, run as people run it."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def start(self, *words: str, database: str) -> asyncio.subprocess.Process:
        root = Path(schema.__file__).parents[1]
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "store", *words),
            env={**os.environ, "PYTHONPATH": str(root), "WINDLASS_DATABASE": database},
            cwd=self._home,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *words: str, database: str) -> tuple[int | None, str, str]:
        process = await self.start(*words, database=database)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


async def test_the_command_checks_and_migrates(command: Command, empty_url: str) -> None:
    newest = f"is at {schema.newest()}, the newest revision\n"
    code, out, err = await command.run("check", database=empty_url)
    assert (code, out) == (1, "")
    assert err.endswith(": run python -m store migrate\n")
    for verb in ("migrate", "migrate", "check"):
        code, out, err = await command.run(verb, database=empty_url)
        assert (code, err) == (0, "")
        assert out.endswith(newest)
        assert out.count("\n") == 1


async def test_a12_the_command_removes_old_lines_of_the_audit_trail(
    command: Command, database: Database, database_url: str
) -> None:
    audit = Audit(database)
    for days in (20, 10, 0):
        await audit.write(Deed(time=now() - timedelta(days=days), user="ada", method="a/B"))
    before = f"{now() - timedelta(days=5):%Y-%m-%d}"
    code, out, err = await command.run("prune-audit", "--before", before, database=database_url)
    verdict = await audit.verify()
    assert (verdict.first, verdict.lines, verdict.broken) == (3, 4, 0)
    anchor = f"{verdict.lines}:{verdict.chain}"
    assert (code, out, err) == (0, f"the audit trail begins with line 3; anchor {anchor}\n", "")
    code, _, err = await command.run("prune-audit", "--before", before, database=database_url)
    assert (code, err) == (0, "there are no lines that old: nothing is removed\n")
    code, _, err = await command.run("prune-audit", "--before", "2999-01-01", database=database_url)
    assert code == 1
    assert "is yet to come" in err


async def test_the_command_waits_for_a_server_that_is_starting(
    command: Command, postgres_url: str
) -> None:
    async with wire_to(make_url(postgres_url)) as (wire, url):
        await wire.cut()
        process = await command.start("migrate", "--wait", "50", database=url)
        assert process.stderr
        assert process.stdout
        assert (await process.stderr.readline()).startswith(b"waiting up to 50 s: the database")
        await wire.mend()
        assert b"the newest revision" in await process.stdout.readline()
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql+asyncpg://ann:hunter2@127.0.0.1:1/x", "error: the database did not answer"),
        ("mysql://ann:hunter2@127.0.0.1/x", "error: the database's URL begins with neither"),
        ("sqlite+aiosqlite:////dev/null/x/y.db", "error: the directory /dev/null/x cannot be made"),
    ],
)
async def test_the_command_says_what_is_wrong_and_no_password(
    command: Command, url: str, said: str
) -> None:
    code, out, err = await command.run("migrate", "--wait", "0", database=url)
    assert (code, out) == (1, "")
    assert said in err
    assert "hunter2" not in err
    assert "Traceback" not in err


async def test_a_database_of_a_newer_release_is_named_so_and_left_alone(database: Database) -> None:
    async with database.session(writes=True) as session:
        await session.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    try:
        assert (await schema.lacking(database)).startswith(
            "newer than this program: it is at r9999"
        )
        with pytest.raises(Failed) as refused:
            await schema.upgrade(database.url.render_as_string(hide_password=False))
        assert refused.value.reason == "DATABASE_NEWER"
    finally:  # other tests have the same tables
        async with database.session(writes=True) as session:
            again = text("UPDATE alembic_version SET version_num = :newest")
            await session.execute(again, {"newest": schema.newest()})
    assert await schema.lacking(database) == ""
