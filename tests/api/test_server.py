"""What a server says about itself: health and reflection; and where it cannot listen."""

import re
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha import reflection_pb2

from api import build
from api.__main__ import Api
from api.launch import client
from api.meters import Meters
from api.server import OPTIONS, Server
from domain.errors import DomainError
from settings import Settings
from tests.api.caller import NOBODY, Caller
from tests.support.load import limit

COMMON = {
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
}
DOCUMENT = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
OWN = set(re.findall(r"^## `([^`]+)`$", DOCUMENT, re.MULTILINE)) - COMMON
"""Whatever is described there; another test holds that to what the process puts together."""

REFLECTIONS = sorted(name for name in COMMON if "reflection" in name)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """These need no database."""
    return f"sqlite+aiosqlite:///{tmp_path}/none.db"


@pytest.fixture
def health(caller: Caller) -> Any:
    return HealthStub(caller.channel)


async def reflected(
    caller: Caller, service: str, **question: Any
) -> reflection_pb2.ServerReflectionResponse:
    call = caller.channel.stream_stream(
        f"/{service}/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )(iter([reflection_pb2.ServerReflectionRequest(**question)]), timeout=20)
    answer = await call.read()
    assert isinstance(answer, reflection_pb2.ServerReflectionResponse)
    return answer


@pytest.mark.parametrize("service", REFLECTIONS)
async def test_reflection_lists_what_is_served(service: str, caller: Caller) -> None:
    answer = await reflected(caller, service, list_services="")
    listed = {found.name for found in answer.list_services_response.service}
    assert listed == OWN | COMMON


@pytest.mark.parametrize("service", REFLECTIONS)
@pytest.mark.parametrize("symbol", sorted(OWN | COMMON))
async def test_reflection_describes_what_it_lists(
    service: str, symbol: str, caller: Caller
) -> None:
    answer = await reflected(caller, service, file_containing_symbol=symbol)
    files = map(
        FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto
    )
    services = {f"{file.package}.{found.name}" for file in files for found in file.service}
    assert symbol in services


@pytest.mark.parametrize("service", sorted({*OWN, ""}))
async def test_health_is_told_for_every_service(service: str, health: Any) -> None:
    reply = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=20)
    assert reply.status == SERVING


async def test_health_is_listed(caller: Caller) -> None:
    listed = health_pb2.HealthListResponse.FromString(  # type: ignore[attr-defined]
        await caller.raw("grpc.health.v1.Health/List", b"")
    )
    assert set(listed.statuses) == {*OWN, ""}
    assert {status.status for status in listed.statuses.values()} == {SERVING}


async def test_health_of_what_is_not_served_is_not_found(health: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=20)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_going_down_is_said_to_who_watches_health_before_it_is_done(
    api: Api, health: Any
) -> None:
    watching = health.Watch(
        health_pb2.HealthCheckRequest(service="cnct.kaas.api.Cluster"), timeout=20
    )
    assert (await watching.read()).status == SERVING
    await api.stop()
    assert (await watching.read()).status == NOT_SERVING


async def test_a_stream_stays_when_its_connection_is_too_old_for_new_calls() -> None:
    sooner = {name: 200 if "connection_age" in name else OPTIONS[name] for name in OPTIONS}
    server = Server([], Meters(), options=sooner)
    address = await server.start("127.0.0.1:0")
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=own) as channel:
        health: Any = HealthStub(channel)
        asked = health_pb2.HealthCheckRequest()
        watching = health.Watch(asked, timeout=20)
        assert (await watching.read()).status == SERVING
        for _ in range(3):  # connections, one after the other
            await health.Check(asked, timeout=20)
            async with limit(20):
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        await server.stop()
        assert (await watching.read()).status == NOT_SERVING


async def test_a_contract_that_is_not_served_is_not_there(caller: Caller) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.raw("agent.InstanceService/signal", b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("door", ["grpc_address", "http_address"])
async def test_an_address_in_use_is_said_to_be(
    door: str, addresses: tuple[str, str], settings: Settings
) -> None:
    taken = addresses[0 if door == "grpc_address" else 1]
    second = Api(
        settings.model_copy(update={door: taken}),
        await client(NOBODY, "default"),
        build.Build(),
    )
    claimed = f"another API process is alive that serves as {taken}"
    with pytest.raises(DomainError, match=f"cannot listen on {taken}|{claimed}") as caught:
        await second.start()
    assert caught.value.reason == "ADDRESS_CLAIMED" or f"WINDLASS_{door.upper()}" in caught.value.do
    await second.stop()
