"""Who a node is, by the certificate it registers with."""

from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from domain.errors import Invalid

PEM = "-----BEGIN CERTIFICATE-----"
ID_LENGTH = 253
LARGEST = 64 * 1024


class Shown(NamedTuple):
    """What a node is by what it registers with. A bare token is the id, and nothing else."""

    id: str
    fingerprint: str = ""
    """Of its key."""
    certificate: str = ""
    """PEM of the certificate that was read, and of none that was sent along: whatever else is in
    the text, anybody may have put there."""


def shown(certificate: str, *, bare_tokens: bool) -> Shown:
    """Who registers with this."""
    text = certificate.strip()
    if len(text) > LARGEST:
        raise _bad("the certificate is too long")
    if text.startswith(PEM):
        return _of_pem(text)
    if not bare_tokens:
        raise _bad("this is no PEM certificate, and bare tokens are not taken here")
    if not _is_id(text):
        raise _bad("this is neither a PEM certificate nor a token that could be an id")
    return Shown(text)


def _of_pem(text: str) -> Shown:
    """The certificate's first DNS name or else its common name, and the hash of its public key: a
    certificate that is renewed with the same key is the same node's."""
    try:
        certificate = x509.load_pem_x509_certificate(text.encode())
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except ValueError as error:
        raise _bad("the certificate cannot be read") from error
    name = _name(certificate)
    if not _is_id(name):
        raise _bad("the certificate has neither a DNS name nor a common name")
    return Shown(name, _hash(key), certificate.public_bytes(Encoding.PEM).decode().strip())


def _name(certificate: x509.Certificate) -> str:
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = alternative.value.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, ValueError):
        names = []
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return names[0] if names else str(common[0].value) if common else ""


def _hash(key: bytes) -> str:
    digest = Hash(SHA256())
    digest.update(key)
    return digest.finalize().hex()


def _is_id(text: str) -> bool:
    return 0 < len(text) <= ID_LENGTH and text.isprintable() and not set("/ ") & set(text)


def _bad(why: str) -> Invalid:
    return Invalid(why, reason="CERTIFICATE_INVALID", do="register with another certificate")
