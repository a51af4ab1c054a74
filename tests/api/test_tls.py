"""Encryption at both doors, certificates that are renewed, and callers who have some."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx2
import pytest
from cryptography import x509

from api import build
from api.__main__ import Api
from api.launch import client
from api.tls import Certificates, Files, encryption, peers
from domain.errors import Invalid
from protos.gen.edge.node_pb2 import NODE_CRM, NODE_DME, Node, NodeKey
from protos.gen.edge.node_pb2_grpc import NodeApiStub
from protos.gen.edge.notice_pb2 import VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from protos.gen.ops import access_pb2
from protos.gen.ops.access_pb2_grpc import TokensStub, UsersStub
from settings import Tls
from tests.api.caller import NOBODY, read
from tests.api.closed import closed
from tests.api.signed import bearer
from tests.cli.running import in_process
from tests.support.load import grown, limit

OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


async def made(folder: Path, *arguments: str) -> Path:
    outcome = await asyncio.to_thread(in_process, "certs", "init", str(folder), *arguments)
    assert outcome.code == 0, outcome.err
    return folder


UNHEARD = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}


def asking(folder: Path, **more: Any) -> Tls:
    """A server that asks for certificates of an authority."""
    said = {"certificate": folder / "server.crt", "key": folder / "server.key"}
    return Tls(**said, client_ca=folder / "ca.crt", **more)


def shown(address: str, folder: Path, name: str = "") -> grpc.aio.Channel:
    """A channel of somebody with a certificate, or without."""
    pair = (folder / f"{name}.key", folder / f"{name}.crt") if name else ()
    read = [file.read_bytes() for file in (folder / "ca.crt", *pair)]
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*read), options=OPTIONS)


async def who(
    address: str, folder: Path, name: str = "", given: Sequence[tuple[str, str]] = ()
) -> str:
    """Whom somebody is taken for there, or why not."""
    async with shown(address, folder, name) as channel:
        try:
            asked = access_pb2.WhoAmIRequest()
            return (await UsersStub(channel).WhoAmI(asked, metadata=given, timeout=20)).name
        except grpc.aio.AioRpcError as error:
            return error.code().name


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
    async with closed(tmp_path_factory.mktemp("closed"), asking(folder)) as server:
        assert await who(server.address, folder, "ole") == "ole"
        assert await who(server.address, folder, "nobody") == "UNAUTHENTICATED"
        assert await who(server.address, folder) in UNHEARD, "nobody else gets a line"


async def test_a_token_that_is_made_by_certificate_speaks_of_no_more_than_is_said(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = await made(tmp_path_factory.mktemp("certs") / "one", "--user", "ada")
    async with (
        closed(tmp_path_factory.mktemp("closed"), asking(folder)) as server,
        shown(server.address, folder, "ada") as channel,
    ):
        wanted = access_pb2.CreateTokenRequest(user="agent-7")
        told = await TokensStub(channel).Create(wanted, timeout=20)
        assert list(told.token.cloudlets) == [], "any of them has to be said"


async def test_certificates_have_a_door_of_their_own_beside_tokens(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = await made(tmp_path_factory.mktemp("certs") / "one", "--user", "ole")
    tls = asking(folder, client_address="127.0.0.1:0")
    async with closed(tmp_path_factory.mktemp("closed"), tls) as server:
        token, theirs = bearer(server.tokens["vic"]), server.api._server.certified
        assert await who(server.address, folder, given=token) == "vic"
        assert await who(server.address, folder, "ole") == "UNAUTHENTICATED", "nobody asks there"
        assert await who(theirs, folder, "ole") == "ole"
        assert await who(theirs, folder, "ole", given=token) == "vic"
        assert await who(theirs, folder, given=token) in UNHEARD


async def test_a_stream_that_a_certificate_opened_ends_with_its_user(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = await made(
        tmp_path_factory.mktemp("certs") / "one", "--user", "agent-7", "--user", "agent-8"
    )
    async with closed(tmp_path_factory.mktemp("closed"), asking(folder)) as server:

        async def told() -> AsyncIterator[Notice]:
            yield Notice(action=VERSION, version=1)
            await asyncio.Event().wait()

        async with shown(server.address, folder, "agent-7") as channel:
            ended: Any = NotifyApiStub(channel).StreamNotice(told())
            assert (await ended.read()).action == VERSION
            async with shown(server.address, folder, "agent-8") as another:
                kept: Any = NotifyApiStub(another).StreamNotice(told())
                assert (await kept.read()).action == VERSION
                off = access_pb2.SetDisabledRequest(name="agent-7", disabled=True)
                admin = bearer(server.tokens["ada"])
                await UsersStub(channel).SetDisabled(off, metadata=admin, timeout=20)

                async def to_its_end() -> None:
                    while await ended.read():
                        pass

                with pytest.raises(grpc.aio.AioRpcError) as over:
                    await asyncio.wait_for(to_its_end(), grown(20))
                assert read(over.value).code is grpc.StatusCode.UNAUTHENTICATED
                assert read(over.value).message.startswith("agent-7, whom the certificate names")
                assert not kept.done()
                kept.cancel()


async def test_processes_show_one_another_who_they_are(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = await made(tmp_path_factory.mktemp("certs") / "one", "--user", "ole")
    peer = {"peer_certificate": folder / "ole.crt", "peer_key": folder / "ole.key"}
    tls = asking(folder, ca=folder / "ca.crt", **peer)
    async with closed(tmp_path_factory.mktemp("closed"), tls) as server:
        second = Api(server.api._settings, await client(NOBODY, "default"), build.Build())
        await second.start()
        here, there = (
            Node(key=NodeKey(name=name, node_type=kind))
            for name, kind in (("b", NODE_CRM), ("a", NODE_DME))
        )
        server.api._notifying.attached.put(1, here)
        second._notifying.attached.put(1, there)
        async with shown(server.address, folder, "ole") as channel, limit(30):
            found: list[Node] = []
            while len(found) < 2:  # once they know of each other
                asked = NodeApiStub(channel).ShowNode(Node(), timeout=20)
                found = [node async for node in asked]
                assert found[0] == here, "what is known here is told whoever else answers"
        assert found == [here, there]
        await second.stop()


def test_files_that_are_no_certificates_are_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing")
    for files in (Files(tmp_path / "x", tmp_path / "x"), Files(tmp_path / "y", tmp_path / "y")):
        with pytest.raises(Invalid) as refused:
            Certificates(files)
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"


def test_encryption_that_is_half_set_is_not_left_out(tmp_path: Path) -> None:
    assert encryption(Tls()) is None
    whole = {"certificate": tmp_path, "key": tmp_path}
    for half in (
        *(Tls(certificate=tmp_path), Tls(key=tmp_path), Tls(client_ca=tmp_path)),
        Tls(client_address="127.0.0.1:0"),
        Tls(**whole, client_address="127.0.0.1:0"),
    ):
        with pytest.raises(Invalid) as refused:
            encryption(half)
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"
    for half in (
        *(Tls(peer_certificate=tmp_path), Tls(peer_key=tmp_path), Tls(ca=tmp_path / "nothing")),
        Tls(peer_certificate=tmp_path, peer_key=tmp_path),
    ):
        with pytest.raises(Invalid) as refused:
            peers(half)
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"


def test_secrets_are_not_told_in_the_clear_where_others_hear_unless_that_is_said() -> None:
    inside, outside = ["127.0.0.1:9020", "[::1]:8282"], ["127.0.0.1:9020", "10.0.0.1:8282"]
    assert encryption(Tls(), inside) is None
    assert encryption(Tls(plain_beyond_loopback=True), outside) is None
    with pytest.raises(Invalid, match=r"10\.0\.0\.1:8282") as refused:
        encryption(Tls(), outside)
    assert refused.value.reason == "PLAIN_TO_ALL"
    assert "WINDLASS_TLS__PLAIN_BEYOND_LOOPBACK=true" in refused.value.do


async def test_making_certificates_overwrites_nothing(tmp_path: Path) -> None:
    folder = await made(tmp_path / "certs", "--host", "windlass.example")
    certificate = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "windlass.example" in names.get_values_for_type(x509.DNSName)
    assert (folder / "server.key").stat().st_mode & 0o077 == 0
    again = await asyncio.to_thread(in_process, "certs", "init", str(folder))
    assert (again.code, "is not empty" in again.err) == (2, True)
