"""The API as a process: it says where it is, goes down in order, and says why it cannot start."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from sqlalchemy import text

from protos.gen.kaas import api_pb2 as pb
from protos.gen.ops import operations_pb2 as ops
from store.audit import Audit
from store.engine import Database
from store.secrets import Secrets
from tests.api.caller import Caller, answered, read, wanted
from tests.programs.running import ended, running, told
from tests.support.load import limit

API = ("-m", "api")


async def test_it_says_where_it_is_and_goes_down_in_order(environment: dict[str, str]) -> None:
    async with running(*API, environment=environment) as process:
        ready = await told(process, "ready")
        assert not ready["http"].endswith(":0")
        caller = Caller(ready["grpc"])
        reply, trailers = await answered(caller.cluster.CreateCluster(wanted(), timeout=20))
        assert reply.ok
        watching = caller.operations.Watch(
            ops.WatchOperationRequest(name=trailers["windlass-operation"]), timeout=20
        )
        first = await watching.read()
        assert isinstance(first, ops.OperationEvent)
        assert first.number == 1
        process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watching.read()
        assert read(caught.value).reason == "SERVER_STOPPING"
        async with limit(10):
            assert await process.wait() == 0
        await caller.close()


WITHHELD = {
    True: (
        "CREATE TRIGGER withheld BEFORE INSERT ON audit WHEN NEW.began IS {} NULL "
        "BEGIN SELECT RAISE(ABORT, 'withheld'); END",
    ),
    False: (
        "CREATE FUNCTION withhold() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'withheld' USING ERRCODE = '40001'; END $$",
        "CREATE TRIGGER withheld BEFORE INSERT ON audit FOR EACH ROW "
        "WHEN (NEW.began IS {} NULL) EXECUTE FUNCTION withhold()",
    ),
}
GIVEN_FREE = {
    True: ("DROP TRIGGER withheld",),
    False: ("DROP TRIGGER withheld ON audit", "DROP FUNCTION withhold"),
}


@asynccontextmanager
async def withheld(database: Database, *, end: bool) -> AsyncIterator[None]:
    """The database takes no line of the trail that says how a call ended, or none that begins."""
    word = "NOT" if end else ""
    await _did(database, *(each.format(word) for each in WITHHELD[database.is_sqlite]))
    try:
        yield
    finally:  # the next test has the same tables
        await _did(database, *GIVEN_FREE[database.is_sqlite])


async def _did(database: Database, *statements: str) -> None:
    async with database.session(writes=True) as session:
        for statement in statements:
            await session.execute(text(statement))


async def _clusters(database: Database) -> int:
    async with database.session(writes=False) as session:
        return int(await session.scalar(text("SELECT count(*) FROM clusters")) or 0)


async def test_a_change_whose_process_was_killed_is_in_the_trail_without_its_end(
    environment: dict[str, str], database: Database
) -> None:
    async with running(*API, environment=environment) as process:
        caller = Caller((await told(process, "ready"))["grpc"])
        async with withheld(database, end=True):
            asked = caller.cluster.CreateCluster(wanted("hello"), timeout=20)
            async with limit(20):
                while not await _clusters(database):  # noqa: ASYNC110 - another process's
                    await asyncio.sleep(0.01)
            process.kill()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asked
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await caller.close()
    audit = Audit(database)
    [line] = await audit.list(after=0, most=9)
    assert line.deed.method == "cnct.kaas.api.Cluster/CreateCluster"
    assert (line.deed.subject, line.deed.code) == ("hello", "")
    assert (await audit.verify()).broken == 0


async def test_what_cannot_be_written_down_is_not_done(
    environment: dict[str, str], database: Database
) -> None:
    async with running(*API, environment=environment) as process:
        caller = Caller((await told(process, "ready"))["grpc"])
        async with withheld(database, end=False):
            with pytest.raises(grpc.aio.AioRpcError):
                await caller.cluster.CreateCluster(wanted("hello"), timeout=20)
        assert not await _clusters(database)
        await caller.close()


@pytest.mark.parametrize("door", ["WINDLASS_GRPC_ADDRESS", "WINDLASS_HTTP_ADDRESS"])
async def test_an_address_in_use_is_one_line_and_a_failure(
    door: str, environment: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = ":".join(map(str, listening.getsockname()))
        said, do = (await ended(*API, environment={**environment, door: taken})).refusal
    assert said == f"error: cannot listen on {taken}: it is in use, or no address of this machine"
    assert door in do


async def test_a_key_that_cannot_be_used_is_a_failure_to_start(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "short.key").touch(mode=0o600)
    (tmp_path / "short.key").write_bytes(b"short")
    environment["WINDLASS_KEY_FILE"] = str(tmp_path / "short.key")
    said, do = (await ended(*API, environment=environment)).refusal
    assert said.startswith("error: the key file")
    assert "WINDLASS_KEY_FILE" in do


async def test_a_key_that_opens_nothing_is_a_failure_to_start(
    environment: dict[str, str], vault: Secrets, tmp_path: Path
) -> None:
    await vault.keep("cluster/1/login", b"a secret")
    (tmp_path / "seal.key").unlink()
    said, do = (await ended(*API, environment=environment)).refusal
    assert said == "error: the secret cluster/1/login does not open with key file-1"
    assert "key file" in do


async def test_settings_that_are_wrong_are_a_failure_to_start(environment: dict[str, str]) -> None:
    environment["WINDLASS_LOG_LEVEL"] = "shouting"
    said, wrong, _ = (await ended(*API, environment=environment)).refusal
    assert said == "error: the settings are not valid"
    assert wrong.startswith("  log_level: ")


async def test_what_is_accepted_survives_a_kill(environment: dict[str, str]) -> None:
    async with running(*API, environment=environment) as process:
        caller = Caller((await told(process, "ready"))["grpc"])
        await caller.cluster.CreateCluster(wanted(), timeout=20)
        await caller.close()
        process.kill()
        await process.wait()
    async with running(*API, environment=environment) as process:
        caller = Caller((await told(process, "ready"))["grpc"])
        reply = await caller.cluster.GetCluster(pb.GetClusterMsg(name="hello"), timeout=20)
        assert reply.cluster.status == pb.PROVISIONING
        await caller.close()
