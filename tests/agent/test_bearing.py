"""A channel of an agent carries its token, whatever kind of call it is."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import grpc.aio
import pytest

from agent.bearing import CA, CERT, KEY, TOKEN, opened
from domain.errors import Invalid
from settings import Tls
from tests.api.closed import Closed, closed
from tests.cli.running import in_process


async def test_every_kind_of_call_carries_the_token(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with closed(tmp_path_factory.mktemp("closed")) as server:
        assert await _codes(server) == ["UNAUTHENTICATED"] * 4
        monkeypatch.setenv(TOKEN, server.tokens["agent-7"])
        assert "UNAUTHENTICATED" not in await _codes(server)


async def test_a_certificate_is_shown_where_one_is_asked_for(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("certs") / "one"
    outcome = await asyncio.to_thread(in_process, "certs", "init", str(folder), "--user", "agent-7")
    assert outcome.code == 0, outcome.err
    ca = folder / "ca.crt"
    tls = Tls(certificate=folder / "server.crt", key=folder / "server.key", client_ca=ca)
    async with closed(tmp_path_factory.mktemp("closed"), tls) as server:
        monkeypatch.setenv(CERT, str(folder / "agent-7.crt"))
        monkeypatch.setenv(KEY, str(folder / "agent-7.key"))
        with pytest.raises(Invalid) as refused:
            opened(server.address, [])
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"
        monkeypatch.setenv(CA, str(ca))
        codes = await _codes(server)
        assert not {"UNAUTHENTICATED", "UNAVAILABLE", "DEADLINE_EXCEEDED"} & set(codes)


async def _codes(server: Closed) -> list[str]:
    """What each kind of call is answered with."""
    channel: Any = opened(server.address, [])
    single = (
        channel.unary_unary("/scheduler.NodeService/Unregister")(b"", timeout=20),
        channel.stream_unary("/scheduler.NodeService/Status")(iter([b"\xff"]), timeout=20),
    )
    streams = (
        channel.unary_stream("/edgeproto.FlavorApi/ShowFlavor")(b"", timeout=20),
        channel.stream_stream("/edgeproto.NotifyApi/StreamNotice")(iter([b"\xff"]), timeout=20),
    )
    found = [await _code(call) for call in single]
    found += [await _code(_read(stream)) for stream in streams]
    await channel.close()
    return found


async def _code(call: Awaitable[Any]) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def _read(stream: Any) -> None:
    async for _ in stream:
        pass
