"""The connection to Temporal: by TLS, with a certificate of our own and with an API key."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceResponse, GetSystemInfoResponse
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from api.launch import Launch, client
from api.tls import Files
from domain.errors import Invalid, Unavailable
from settings import Settings, Temporal
from tests.agent.certificates import made
from workflows import connecting
from workflows.catalogue import CATALOGUE
from workflows.connecting import Trust, connected

NAME = "temporal.test"


@pytest.fixture
def theirs(tmp_path: Path) -> Files:
    return made(tmp_path / "theirs", NAME)


@pytest.fixture
def ours(tmp_path: Path) -> Files:
    return made(tmp_path / "ours", "windlass")


@pytest.fixture
async def secured(temporal: WorkflowEnvironment, theirs: Files, ours: Files) -> AsyncIterator[str]:
    """A Temporal that lets nobody in without our certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ours.certificate)
    context.load_cert_chain(theirs.certificate, theirs.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, _, port = temporal.client.service_client.config.target_host.rpartition(":")

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_connection(host, int(port))
        await asyncio.gather(poured(reader, before), poured(behind, writer))

    server = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=context)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def poured(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_a_worker_and_an_api_come_in_with_their_certificate(
    secured: str, theirs: Files, ours: Files
) -> None:
    said = Temporal(
        address=secured,
        ca_file=theirs.certificate,
        cert_file=ours.certificate,
        key_file=ours.key,
        server_name=NAME,
    )
    trust = Trust(**said.trust())
    worker = await connected(secured, "default", "127.0.0.1:0", pydantic_data_converter, trust)
    assert await worker.count_workflows("WorkflowId = 'nobody'")
    launch = Launch(await client(secured, "default", trust=trust), CATALOGUE, "q")
    assert await launch.trouble() == ""


@pytest.mark.parametrize("lacks", ["certificate", "authority", "everything"])
async def test_nobody_else_comes_in(
    secured: str, theirs: Files, ours: Files, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "CONNECT_SECONDS", 0.0)
    whole = Trust(True, theirs.certificate, ours.certificate, ours.key, NAME)
    trust = {
        "certificate": whole._replace(certificate=None, key=None),
        "authority": whole._replace(authority=None),
        "everything": Trust(),
    }[lacks]
    with pytest.raises(Unavailable):
        await connected(secured, "default", "127.0.0.1:0", pydantic_data_converter, trust)


@asynccontextmanager
async def keyed(theirs: Files) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that speaks TLS and writes down the keys that it is shown."""
    shown: list[str] = []

    class Shown(grpc.GenericRpcHandler):
        def service(self, call: grpc.HandlerCallDetails) -> Any:
            metadata = dict(call.invocation_metadata)
            shown.append(str(metadata.get("authorization", "")))
            answer: Any = DescribeNamespaceResponse()
            if call.method.endswith("GetSystemInfo"):
                answer = GetSystemInfoResponse()

            async def answered(_request: bytes, _context: Any) -> bytes:
                return bytes(answer.SerializeToString())

            return grpc.unary_unary_rpc_method_handler(answered)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Shown(),))
    pair = (theirs.key.read_bytes(), theirs.certificate.read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    await server.start()
    yield f"127.0.0.1:{port}", shown
    await server.stop(None)


async def test_an_api_key_goes_with_every_call(theirs: Files, tmp_path: Path) -> None:
    file = tmp_path / "temporal.key"
    file.write_text("a key of ours\n")
    async with keyed(theirs) as (address, shown):
        said = Temporal(
            address=address, ca_file=theirs.certificate, server_name=NAME, api_key_file=file
        )
        trust = Trust(**said.trust())
        await connected(address, "default", "127.0.0.1:0", pydantic_data_converter, trust)
    assert set(shown) == {"Bearer a key of ours"}


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(Invalid, match=r"missing\.pem cannot be read"):
        Trust(authority=missing).options()
    with pytest.raises(Invalid, match=r"missing\.pem cannot be read"):
        Temporal(api_key_file=missing).trust()


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cert_file and key_file are set together"):
        Settings(temporal={"cert_file": tmp_path})


def test_a_connection_is_private_by_tls_or_on_this_machine() -> None:
    assert Temporal().is_private
    assert not Temporal(address="temporal:7233").is_private
    assert Temporal(address="temporal:7233", tls=True).is_private
    assert Trust().options() == {"tls": False}
