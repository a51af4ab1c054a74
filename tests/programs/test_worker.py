"""The worker as a process: what it waits for, and what it will not start with."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import text
from temporalio.testing import WorkflowEnvironment

from store import schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.programs.running import ended, running, surroundings, told
from tests.support.load import limit

WORKER = "worker.py"


@pytest.fixture
def environment(
    migrated_file: Path, temporal: WorkflowEnvironment, tmp_path: Path
) -> dict[str, str]:
    return surroundings(
        WINDLASS_DATABASE=f"sqlite+aiosqlite:///{migrated_file}",
        WINDLASS_KEY_FILE=str(tmp_path / "seal.key"),
        WINDLASS_LOG_FORMAT="json",
        WINDLASS_MAAS__API_KEY=":".join(uuid4().hex for _ in range(3)),
        WINDLASS_TEMPORAL__ADDRESS=temporal.client.service_client.config.target_host,
        WINDLASS_TEMPORAL__QUEUE_PREFIX=f"{uuid4().hex[:8]}-",
        WINDLASS_WORKER__METRICS_PORT="0",
    )


@pytest.fixture
async def migrated_file(tmp_path: Path) -> Path:
    """A database with all tables."""
    path = tmp_path / "windlass.db"
    await schema.upgrade(f"sqlite+aiosqlite:///{path}")
    return path


@pytest.fixture
def turn(migrated_file: Path) -> Callable[[], None]:
    """Makes a database one that cannot be opened. The same again brings it back."""
    away = migrated_file.with_suffix(".away")

    def turned() -> None:
        if away.exists():
            migrated_file.rmdir()
            away.rename(migrated_file)
        else:
            migrated_file.rename(away)
            migrated_file.mkdir()

    return turned


async def sealed(path: Path) -> None:
    """Put a secret there that opens with nobody's key."""
    database = Database(f"sqlite+aiosqlite:///{path}")
    seal = Seal(AESGCM.generate_key(bit_length=256))
    await Secrets(database, seal).keep("cluster/1/login", uuid4().bytes)
    await database.close()


async def test_it_works_and_goes_down_in_order(environment: dict[str, str]) -> None:
    async with running(WORKER, "machines", environment=environment) as process:
        await told(process, "worker ready")
        process.send_signal(signal.SIGTERM)
        async with limit(30):
            assert await process.wait() == 0


async def test_it_does_not_start_with_a_key_that_opens_nothing(
    environment: dict[str, str], migrated_file: Path
) -> None:
    await sealed(migrated_file)
    said, do = (await ended(WORKER, environment=environment)).refusal
    assert said == "error: the secret cluster/1/login does not open with key file-1"
    assert "key file" in do


async def test_it_waits_for_the_database_and_then_looks_at_its_key(
    environment: dict[str, str], migrated_file: Path, turn: Callable[[], None]
) -> None:
    await sealed(migrated_file)
    turn()
    async with running(WORKER, environment=environment) as process:
        await told(process, "waiting for the database")
        turn()
        async with limit(30):
            _, err = await process.communicate()
    assert process.returncode == 1
    assert b"does not open with key file-1" in err


async def test_it_waits_for_tables_until_it_is_told_to_stop(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["WINDLASS_DATABASE"] = f"sqlite+aiosqlite:///{tmp_path}/empty.db"
    async with running(WORKER, environment=environment) as process:
        line = await told(process, "waiting for the database")
        assert "migrated" in line["error"]
        process.send_signal(signal.SIGTERM)
        async with limit(30):
            assert await process.wait() == 0


async def test_it_says_that_the_database_is_newer_and_ends_when_it_is_told_to(
    environment: dict[str, str], migrated_file: Path
) -> None:
    database = Database(f"sqlite+aiosqlite:///{migrated_file}")
    async with database.session(writes=True) as session:
        await session.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    await database.close()
    async with running(WORKER, environment=environment) as process:
        line = await told(process, "waiting for the database")
        assert "newer than this program: it is at r9999" in line["error"]
        process.send_signal(signal.SIGTERM)
        async with limit(30):
            assert await process.wait() == 0


async def test_it_waits_for_temporal_until_it_is_told_to_stop(
    environment: dict[str, str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        environment["WINDLASS_TEMPORAL__ADDRESS"] = f"127.0.0.1:{nobody.getsockname()[1]}"
    async with running(WORKER, environment=environment) as process:
        await told(process, "temporal does not answer yet")
        process.send_signal(signal.SIGTERM)
        async with limit(5):
            assert await process.wait() == 0


async def test_a_temporal_that_takes_connections_and_says_nothing_is_tried_again(
    environment: dict[str, str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment["WINDLASS_TEMPORAL__ADDRESS"] = f"127.0.0.1:{silent.getsockname()[1]}"
        async with running(WORKER, environment=environment) as process:
            line = await told(process, "temporal does not answer yet")
            assert "says nothing" in line["error"]


async def test_a_metrics_port_in_use_is_one_line_and_a_failure(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        environment["WINDLASS_WORKER__METRICS_PORT"] = str(port)
        said, do = (await ended(WORKER, environment=environment)).refusal
    assert said.startswith(f"error: metrics cannot be served on 127.0.0.1:{port}: ")
    assert "WINDLASS_WORKER__METRICS_PORT" in do


@pytest.mark.parametrize("queues", [(), ("machines",)])
async def test_a_namespace_that_is_not_there_is_one_line_and_a_failure(
    queues: tuple[str, ...], environment: dict[str, str]
) -> None:
    environment["WINDLASS_TEMPORAL__NAMESPACE"] = "nowhere"
    said, do = (await ended(WORKER, *queues, environment=environment)).refusal
    assert said == "error: Temporal refused: Namespace nowhere is not found."
    assert "WINDLASS_TEMPORAL__NAMESPACE" in do


async def test_an_address_that_is_none_is_one_line_and_a_failure(
    environment: dict[str, str],
) -> None:
    environment["WINDLASS_TEMPORAL__ADDRESS"] = "not an address"
    said, do = (await ended(WORKER, environment=environment)).refusal
    assert said.startswith("error: not an address is no address of a Temporal server")
    assert "WINDLASS_TEMPORAL__ADDRESS" in do
