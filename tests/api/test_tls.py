"""Encryption at both doors, certificates that are renewed, and callers who have some."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx2
import pytest
from cryptography import x509

from api import signed_in
from api.tls import Certificates, Files, encryption
from domain.errors import Invalid
from protos.gen.edge.notice_pb2 import SENDALL_END, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from protos.gen.ops import access_pb2
from protos.gen.ops.access_pb2_grpc import UsersStub
from settings import Tls
from tests.api.closed import closed
from tests.api.signed import bearer
from tests.cli.running import in_process

OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


async def made(folder: Path, *arguments: str) -> Path:
    outcome = await asyncio.to_thread(in_process, "certs", "init", str(folder), *arguments)
    assert outcome.code == 0, outcome.err
    return folder


async def test_both_doors_are_encrypted_and_take_renewed_certificates(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = await made(tmp_path_factory.mktemp("certs") / "one")
    ca, files = folder / "ca.crt", (folder / "server.crt", folder / "server.key")
    tls = Tls(certificate=files[0], key=files[1], ca=ca)
    async with closed(tmp_path_factory.mktemp("closed"), tls) as server:

        async def who() -> str:
            trusted = grpc.ssl_channel_credentials(ca.read_bytes())
            async with grpc.aio.secure_channel(server.address, trusted, options=OPTIONS) as channel:
                asked = access_pb2.WhoAmIRequest()
                given = bearer(server.tokens["vic"])
                return (await UsersStub(channel).WhoAmI(asked, metadata=given, timeout=20)).name

        async def over_http() -> str:
            https = server.http.replace("http:", "https:")
            context = ssl.create_default_context(cafile=ca)
            async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=20) as http:
                answer = await http.post(
                    f"{https}/api/windlass.v1.Users/WhoAmI",
                    json={},
                    headers=dict(bearer(server.tokens["vic"])),
                )
                return str(answer.json()["name"])

        assert (await who(), await over_http()) == ("vic", "vic")
        asked: Any = server.channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError):
            await asked(b"", timeout=3)  # in the clear

        other = await made(folder.parent / "two")
        for name in ("server.key", "server.crt", "ca.crt"):
            (other / name).replace(folder / name)
        assert (await who(), await over_http()) == ("vic", "vic"), "by the new authority"
        files[0].write_text("half a certificate")
        assert await over_http() == "vic", "what cannot be used is left alone"


async def test_a_certificate_says_who_calls(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = await made(
        tmp_path_factory.mktemp("certs") / "one", "--user", "ole", "--user", "nobody"
    )
    ca = folder / "ca.crt"
    tls = Tls(certificate=folder / "server.crt", key=folder / "server.key", client_ca=ca)
    async with closed(tmp_path_factory.mktemp("closed"), tls) as server:

        async def who(name: str) -> str:
            pair = (folder / f"{name}.key", folder / f"{name}.crt") if name else ()
            mine = grpc.ssl_channel_credentials(ca.read_bytes(), *(f.read_bytes() for f in pair))
            async with grpc.aio.secure_channel(server.address, mine, options=OPTIONS) as channel:
                try:
                    asked = access_pb2.WhoAmIRequest()
                    return (await UsersStub(channel).WhoAmI(asked, timeout=20)).name
                except grpc.aio.AioRpcError as error:
                    return error.code().name

        assert await who("ole") == "ole"
        assert await who("nobody") == "UNAUTHENTICATED"
        assert await who("") in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}, "nobody else gets a line"


async def test_a_stream_that_a_certificate_opened_ends_when_its_user_is_disabled(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_in, "CERTIFIED_SECONDS", 0.01)
    folder = await made(tmp_path_factory.mktemp("certs") / "one", "--user", "ole")
    ca = folder / "ca.crt"
    tls = Tls(certificate=folder / "server.crt", key=folder / "server.key", client_ca=ca)
    pair = (folder / "ole.key", folder / "ole.crt")
    mine = grpc.ssl_channel_credentials(ca.read_bytes(), *(file.read_bytes() for file in pair))
    async with (
        closed(tmp_path_factory.mktemp("closed"), tls) as server,
        grpc.aio.secure_channel(server.address, mine, options=OPTIONS) as channel,
    ):
        call: Any = NotifyApiStub(channel).StreamNotice(timeout=40)
        await call.write(Notice(action=VERSION, version=1))
        for action in (VERSION, SENDALL_END):
            assert (await call.read()).action == action
        out = access_pb2.SetDisabledRequest(name="ole", disabled=True)
        await UsersStub(channel).SetDisabled(out, metadata=bearer(server.tokens["ada"]), timeout=20)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_files_that_are_no_certificates_are_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing")
    for files in (Files(tmp_path / "x", tmp_path / "x"), Files(tmp_path / "y", tmp_path / "y")):
        with pytest.raises(Invalid) as refused:
            Certificates(files)
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"


def test_encryption_that_is_half_set_is_not_left_out(tmp_path: Path) -> None:
    assert encryption(Tls()) is None
    for half in (Tls(certificate=tmp_path), Tls(key=tmp_path), Tls(client_ca=tmp_path)):
        with pytest.raises(Invalid) as refused:
            encryption(half)
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"


async def test_making_certificates_overwrites_nothing(tmp_path: Path) -> None:
    folder = await made(tmp_path / "certs", "--host", "windlass.example")
    certificate = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "windlass.example" in names.get_values_for_type(x509.DNSName)
    assert (folder / "server.key").stat().st_mode & 0o077 == 0
    again = await asyncio.to_thread(in_process, "certs", "init", str(folder))
    assert (again.code, "is not empty" in again.err) == (2, True)
