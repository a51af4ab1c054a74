"""Encryption at the doors: a certificate and its key, read again whenever their files change.

Who renews a certificate puts the new files in place, the key first, and that is all: the next
connection is greeted with the new one. Files that do not fit each other are left alone until they
do."""

import os
import ssl
from pathlib import Path
from typing import NamedTuple, Protocol

import grpc
import structlog

from domain.errors import Invalid

log = structlog.get_logger()


class Files(NamedTuple):
    """Where PEM files lie."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """With one, the gRPC door takes only callers with a certificate of it."""


class Said(Protocol):
    """What an operator says of encryption."""

    @property
    def certificate(self) -> Path | None: ...
    @property
    def key(self) -> Path | None: ...
    @property
    def client_ca(self) -> Path | None: ...


def encryption(said: Said) -> "Certificates | None":
    """What doors are encrypted with. Nothing, if nothing is said; Invalid if only half is."""
    if said.certificate is None and said.key is None and said.client_ca is None:
        return None
    if said.certificate is None or said.key is None:  # who said one of them counts on all
        raise Invalid(
            "encryption needs a certificate and its key, and only part of that is set",
            reason="CERTIFICATE_UNUSABLE",
            do="set WINDLASS_TLS__CERTIFICATE and WINDLASS_TLS__KEY, or nothing of it",
        )
    return Certificates(Files(said.certificate, said.key, said.client_ca))


class Certificates:
    def __init__(self, files: Files) -> None:
        """Invalid if the files are not what they should be."""
        self._files = files
        self._seen = self._stamps()
        try:
            self._context = self._read()
        except (OSError, ssl.SSLError) as error:
            raise Invalid(
                f"the certificate {files.certificate} cannot be used: {error}",
                reason="CERTIFICATE_UNUSABLE",
                do="name a certificate and its key as WINDLASS_TLS__CERTIFICATE and "
                "WINDLASS_TLS__KEY; windlass certs init makes some to try out",
            ) from error

    def for_grpc(self) -> grpc.ServerCredentials:
        """Looked at anew by every connection, in gRPC's own threads."""
        seen = self._seen

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal seen
            stamps = self._stamps()
            if stamps == seen:
                return None
            try:
                self._read()
                fresh = self._configuration()
            except (OSError, ssl.SSLError) as error:
                log.warning("the new certificate cannot be used", error=str(error))
                return None
            seen = stamps
            return fresh

        credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            changed,  # type: ignore[arg-type]
            self._files.client_ca is not None,
        )
        return credentials

    def for_http(self) -> ssl.SSLContext:
        """Its own certificate is never shown: each connection is handed the newest."""
        greeting = self._read()
        greeting.sni_callback = self._greet
        return greeting

    def _greet(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        stamps = self._stamps()
        if stamps != self._seen:
            try:
                self._context = self._read()
                self._seen = stamps
            except (OSError, ssl.SSLError) as error:
                log.warning("the new certificate cannot be used", error=str(error))
        connection.context = self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._files.certificate, self._files.key)
        return context

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        files = self._files
        pair = (files.key.read_bytes(), files.certificate.read_bytes())
        ca = files.client_ca.read_bytes() if files.client_ca else None
        return grpc.ssl_server_certificate_configuration([pair], ca)

    def _stamps(self) -> tuple[int, ...]:
        named = [file for file in self._files if file is not None]
        return tuple(os.stat(file).st_mtime_ns if file.exists() else 0 for file in named)
