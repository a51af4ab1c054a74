"""Certificates of callers: whose they are, until when they are good, and which are revoked."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509

from domain.errors import Invalid

log = structlog.get_logger()

USER = "windlass://user/"
"""What a client's certificate says of whose it is, as the URI among its names."""

BEGINNING = b"-----BEGIN X509 CRL-----"


class ClientCertificate(NamedTuple):
    """A certificate that a caller showed and that was verified."""

    user: str
    expires: datetime
    mark: str
    """What it is known by: its issuer and serial number, hashed."""


@lru_cache(maxsize=1000)
def read(shown: bytes) -> ClientCertificate | None:
    """What a certificate in PEM or DER says, or nothing if it names no user of ours."""
    is_pem = shown.startswith(b"-----")
    load = x509.load_pem_x509_certificate if is_pem else x509.load_der_x509_certificate
    certificate = load(shown)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
        if uri.startswith(USER):
            mark = marked(certificate.issuer, certificate.serial_number)
            return ClientCertificate(uri.removeprefix(USER), certificate.not_valid_after_utc, mark)
    return None


def marked(issuer: x509.Name, serial: int) -> str:
    return hashlib.sha256(b"%s\n%d" % (issuer.public_bytes(), serial)).hexdigest()


class RevocationList:
    """The certificates that a file names as revoked; it is read again when it changes. A new one
    that cannot be read is left alone, and the one before holds."""

    def __init__(self, path: Path | None) -> None:
        """Invalid if there is such a file and it cannot be read."""
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._marks: frozenset[str] = frozenset()
        if path is not None:
            try:
                self._marks, self._stamp = _marks(path), _stamp(path)
            except (OSError, ValueError) as error:
                raise Invalid(
                    f"the list of revoked certificates {path} cannot be read: {error}",
                    reason="CERTIFICATE_UNUSABLE",
                    do="name one in PEM or DER as WINDLASS_TLS__CLIENT_CRL, or none",
                ) from error

    def has(self, mark: str) -> bool:
        """Whether a certificate is revoked."""
        return mark in self._marks

    def refresh(self) -> None:
        """Read the file again if it has changed. It is small, and looked at seldom."""
        if self._path is None:
            return
        try:
            if (stamp := _stamp(self._path)) != self._stamp:
                self._marks, self._stamp = _marks(self._path), stamp
        except (OSError, ValueError) as error:
            log.warning("the list of revoked certificates cannot be read", error=str(error))


def _stamp(path: Path) -> tuple[int, int]:
    seen = path.stat()
    return seen.st_mtime_ns, seen.st_ino


def _marks(path: Path) -> frozenset[str]:
    raw = path.read_bytes()
    load: Callable[[bytes], x509.CertificateRevocationList]
    if BEGINNING in raw:
        load, texts = (
            x509.load_pem_x509_crl,
            [BEGINNING + part for part in raw.split(BEGINNING)[1:]],
        )
    else:
        load, texts = x509.load_der_x509_crl, [raw]
    lists = [load(text) for text in texts]
    return frozenset(marked(each.issuer, gone.serial_number) for each in lists for gone in each)
