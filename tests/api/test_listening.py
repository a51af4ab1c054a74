"""Where gRPC is served besides: at an address, or at a socket that was opened for us."""

import asyncio
import os
import signal
from pathlib import Path

import grpc
import grpc.aio
import pytest

from api.listening import Also, also
from domain.errors import Invalid
from protos.gen.rkt import api_pb2 as pb
from protos.gen.rkt.api_pb2_grpc import PublicAPIStub
from tests.metal import free_port
from tests.programs.running import ended, running, told
from tests.support.load import limit

API = ("-m", "api")
LOOPBACK = "127.0.0.1"
VERSION = "1.0.0-alpha"
OPENING = str(Path(__file__).parents[1] / "programs" / "opening.py")


async def answer(address: str) -> str:
    """What is said there when somebody asks what it is."""
    async with grpc.aio.insecure_channel(address) as channel:
        public = PublicAPIStub(channel)
        try:
            told = await public.GetInfo(pb.GetInfoRequest(), timeout=20, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            return error.code().name
        return told.info.api_version


@pytest.mark.parametrize("family", ["unix", "tcp"])
async def test_r25_a_socket_that_was_passed_is_served(
    environment: dict[str, str], tmp_path: Path, family: str
) -> None:
    where = str(tmp_path / "s") if family == "unix" else f"127.0.0.1:{free_port('127.0.0.1')}"
    words = (OPENING, where, "--", *API)
    async with running(*words, environment=environment) as process:
        ready = await told(process, "ready")
        reached = f"unix:{where}" if family == "unix" else where
        found = await asyncio.gather(*(answer(each) for each in [reached] * 20))
        assert found == [VERSION] * 20
        assert await answer(ready["grpc"]) == VERSION
        process.send_signal(signal.SIGTERM)
        async with limit(20):
            assert await process.wait() == 0


async def test_r25_a_socket_that_others_reach_asks_them_to_sign_in(
    environment: dict[str, str],
) -> None:
    port = free_port(LOOPBACK)
    plain = {**environment, "WINDLASS_TLS__PLAIN_BEYOND_LOOPBACK": "true"}
    async with running(OPENING, f"0.0.0.0:{port}", "--", *API, environment=plain) as process:
        await told(process, "ready")
        assert await answer(f"127.0.0.1:{port}") == "UNAUTHENTICATED"


async def test_secrets_are_not_taken_in_the_clear_from_others(environment: dict[str, str]) -> None:
    beyond = {**environment, "WINDLASS_EDGE__NOTIFY_ADDRESS": "0.0.0.0:0"}
    ending = await ended(*API, environment=beyond)
    assert ending.refusal[-1].endswith("WINDLASS_TLS__PLAIN_BEYOND_LOOPBACK=true")


async def test_r25_a_socket_and_an_address_are_refused(
    environment: dict[str, str], tmp_path: Path
) -> None:
    here = {"WINDLASS_NODES__ALSO_LISTEN": "127.0.0.1:15441"}
    words = (OPENING, str(tmp_path / "s"), "--", *API)
    ending = await ended(*words, environment={**environment, **here})
    assert ending.refusal[-1] == "  do: pass one socket, and unset WINDLASS_NODES__ALSO_LISTEN"


async def test_r25_what_does_not_listen_is_refused(environment: dict[str, str]) -> None:
    ending = await ended(OPENING, "-", "--", *API, environment=environment)
    assert "the socket that was passed is none that listens" in ending.refusal[-2]


async def test_r25_without_a_socket_it_is_an_address(environment: dict[str, str]) -> None:
    where = f"127.0.0.1:{free_port('127.0.0.1')}"
    here = {"WINDLASS_NODES__ALSO_LISTEN": where}
    async with running(*API, environment={**environment, **here}) as process:
        await told(process, "ready")
        assert await answer(where) == VERSION


def test_only_whom_a_socket_is_meant_for_takes_it() -> None:
    others = {"LISTEN_PID": "1", "LISTEN_FDS": "1"}
    assert also("127.0.0.1:15441", others) == also("127.0.0.1:15441", {}) == Also("127.0.0.1:15441")
    assert also("", others) == Also()
    with pytest.raises(Invalid, match="2 were passed"):
        also("", {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})
