"""Tokens end no later than what they were made with: a sign-in, a certificate, a password."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from api.client_certificates import RevocationList, marked
from domain.access import Principal, Role
from domain.errors import Exhausted, Invalid
from protos.gen.ops import access_pb2 as ops
from protos.gen.ops.access_pb2_grpc import TokensStub
from store.engine import Database
from store.tokens import Certificate, Tokens, digest_of
from store.users import Users
from tests.api.closed import closed
from tests.api.signed import bearer
from tests.api.test_tls import asking, made, shown, who
from tests.support.load import limit

HOUR, YEARS = timedelta(hours=1), timedelta(days=3650)


def revoking(folder: Path, *names: str) -> bytes:
    """A list of an authority, in PEM, that revokes the certificates of these names."""
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    moment = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(moment).next_update(moment + timedelta(days=1))
    for name in names:
        certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
        gone = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
        builder = builder.add_revoked_certificate(gone.revocation_date(moment).build())
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


async def test_a_certificate_buys_no_token_that_outlives_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = await made(tmp_path_factory.mktemp("certs") / "one", "--user", "ole", "--user", "vic")
    crl = folder / "revoked.pem"
    crl.write_bytes(revoking(folder))
    ends = x509.load_pem_x509_certificate((folder / "ole.crt").read_bytes()).not_valid_after_utc
    async with closed(tmp_path_factory.mktemp("closed"), asking(folder, client_crl=crl)) as server:
        tokens = {}
        for name in ("ole", "vic"):
            async with shown(server.address, folder, name) as channel:
                asked = ops.CreateTokenRequest(label="long", days=3650)
                reply = await TokensStub(channel).Create(asked, timeout=30)
                tokens[name] = bearer(reply.secret)
                assert reply.token.expires.ToDatetime(UTC) <= ends
        assert await who(server.address, folder, "vic", tokens["ole"]) == "ole"
        crl.write_bytes(revoking(folder, "ole"))
        async with limit(60):
            while await who(server.address, folder, "vic", tokens["ole"]) != "UNAUTHENTICATED":
                pass
        assert await who(server.address, folder, "ole") == "UNAUTHENTICATED"
        assert await who(server.address, folder, "vic") == "vic"
        assert await who(server.address, folder, "vic", tokens["vic"]) == "vic"


async def test_a_list_that_cannot_be_read_is_refused_at_the_start_and_left_alone_later(
    tmp_path: Path,
) -> None:
    folder = await made(tmp_path / "certs", "--user", "ole")
    certificate = x509.load_pem_x509_certificate((folder / "ole.crt").read_bytes())
    mark = marked(certificate.issuer, certificate.serial_number)
    file = tmp_path / "crl.pem"
    for content in (None, b"nothing"):
        if content:
            file.write_bytes(content)
        with pytest.raises(Invalid) as refused:
            RevocationList(file)
        assert refused.value.reason == "CERTIFICATE_UNUSABLE"
    file.write_bytes(revoking(folder))
    revoked = RevocationList(file)
    assert not revoked.has(mark)
    der = x509.load_pem_x509_crl(revoking(folder, "ole")).public_bytes(Encoding.DER)
    file.write_bytes(der)
    revoked.refresh()
    assert revoked.has(mark)
    file.write_bytes(b"half a li")
    revoked.refresh()
    assert revoked.has(mark)


async def test_a_new_password_ends_what_was_made_by_certificate(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    await users.add(Principal(name="bob", role=Role.OPERATOR), "hash")
    until = datetime.now(UTC) + HOUR
    certificate = Certificate("c" * 64, until)
    made, info = await tokens.issue("bob", lifetime=YEARS, label="t", certificate=certificate)
    assert info.expires <= until
    child, child_info = await tokens.issue(
        "bob", lifetime=YEARS, label="t2", parent=digest_of(made)
    )
    assert child_info.expires <= until
    await users.set_password("bob", "another")
    assert await tokens.session(digest_of(made)) is None
    assert await tokens.session(digest_of(child)) is None


async def test_a_user_has_so_many_tokens_and_no_more(database: Database) -> None:
    users, tokens = Users(database), Tokens(database, most=3)
    await users.add(Principal(name="bob", role=Role.OPERATOR), "hash")
    kept, _ = await tokens.issue("bob", lifetime=HOUR, label="kept")
    first, second, third = [(await tokens.issue("bob", lifetime=HOUR))[0] for _ in range(3)]
    good = [await tokens.session(digest_of(each)) for each in (kept, first, second, third)]
    assert [each is not None for each in good] == [True, False, True, True]
    with pytest.raises(Exhausted) as refused:
        await tokens.issue("bob", lifetime=HOUR, label="more")
    assert refused.value.reason == "TOO_MANY_TOKENS"
    await users.add(Principal(name="eve", role=Role.OPERATOR), "hash")
    await tokens.issue("eve", lifetime=HOUR, label="hers")
