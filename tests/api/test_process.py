"""The API as a process: it says where it is, goes down in order, and says why it cannot start."""

import asyncio
import signal
import socket
from pathlib import Path

import grpc
import grpc.aio
import pytest

from protos.gen.kaas import api_pb2 as pb
from protos.gen.ops import operations_pb2 as ops
from store.secrets import Secrets
from tests.api.caller import NOBODY, Caller, answered, read, wanted
from tests.programs.running import ended, running, surroundings, told

API = ("-m", "api")


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return surroundings(
        WINDLASS_DATABASE=database_url,
        WINDLASS_KEY_FILE=str(tmp_path / "seal.key"),
        WINDLASS_GRPC_ADDRESS="127.0.0.1:0",
        WINDLASS_HTTP_ADDRESS="127.0.0.1:0",
        WINDLASS_TEMPORAL__ADDRESS=NOBODY,
        WINDLASS_LOG_FORMAT="json",
    )


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
        async with asyncio.timeout(10):
            assert await process.wait() == 0
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
