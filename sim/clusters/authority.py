"""Certificate authorities of simulated clusters, and what they vouch for.

The peers of a TLS connection read the time of day, whatever the site's clock says, so certificates
are dated by it."""

import base64
import ipaddress
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from domain.frozen import Frozen

_SLACK = timedelta(minutes=5)
_AUTHORITY_LIFE = timedelta(days=3650)
_LEAF_LIFE = timedelta(days=365)


class Pair(Frozen):
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str


def authority(name: str) -> Pair:
    """A self-signed certificate authority that lives ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), _name(name), key.public_key(), _AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    builder = builder.add_extension(_usage(signs_certificates=True), True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(identifier, False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def client(issuer: Pair, user: str, group: str, *, until: datetime | None = None) -> Pair:
    """A client certificate, good for a year or until then: `user` as its CN, `group` as its O."""
    purposes = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    life = _LEAF_LIFE if until is None else until - datetime.now(UTC)
    return _leaf(issuer, _name(user, group), purposes, (), life=life)


def server(
    issuer: Pair, name: str, alternatives: Iterable[str], *, also_calls: bool = False
) -> Pair:
    """A serving certificate, good for a year, for these host names and addresses. One that also
    calls is a client certificate too, as those of etcd members are."""
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH]
    purposes += [ExtendedKeyUsageOID.CLIENT_AUTH] if also_calls else []
    return _leaf(issuer, _name(name), purposes, alternatives)


def signing_key() -> str:
    """A private key that needs no certificate, such as the one for service accounts."""
    return _private(ec.generate_private_key(ec.SECP256R1()))


def public(key: str) -> str:
    """The public half of a private key."""
    half = load_pem_private_key(key.encode(), None).public_key()
    return half.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def kubeconfig(server_url: str, issuer_certificate: str, user: str, pair: Pair) -> str:
    """A kubeconfig with everything embedded. JSON is YAML, and every reader takes it."""
    context = f"{user}@kubernetes"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "kubernetes",
                "cluster": {
                    "certificate-authority-data": _base64(issuer_certificate),
                    "server": server_url,
                },
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _base64(pair.certificate),
                    "client-key-data": _base64(pair.key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": "kubernetes", "user": user}}],
        "current-context": context,
        "preferences": {},
    }
    return json.dumps(config, indent=2) + "\n"


def _leaf(
    issuer: Pair,
    subject: x509.Name,
    purposes: Iterable[x509.ObjectIdentifier],
    alternatives: Iterable[str],
    *,
    life: timedelta = _LEAF_LIFE,
) -> Pair:
    above = x509.load_pem_x509_certificate(issuer.certificate.encode())
    signer = cast(ec.EllipticCurvePrivateKey, load_pem_private_key(issuer.key.encode(), None))
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, above.subject, key.public_key(), life)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs_certificates=False), True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), False)
    over = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(over, False)
    if names := [_alternative(text) for text in alternatives]:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str, organisation: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(parts)


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(certificate=certificate.public_bytes(Encoding.PEM).decode(), key=_private(key))


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
