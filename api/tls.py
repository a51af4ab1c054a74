"""Encryption at the doors: a certificate and its key, read again whenever their files change.

Who renews a certificate puts the new files in place, the key first, and that is all: the next
connection is greeted with the new one. Files that do not fit each other are left alone until they
do."""

import os
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import grpc
import structlog

from domain import access
from domain.errors import Invalid, Unavailable

log = structlog.get_logger()


class Files(NamedTuple):
    """Where PEM files lie."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """With one, gRPC takes only callers with a certificate of it."""
    apart: bool = False
    """Whether it does so at a door of their own alone."""


class Said(Protocol):
    """What an operator says of encryption."""

    @property
    def certificate(self) -> Path | None: ...
    @property
    def key(self) -> Path | None: ...
    @property
    def client_ca(self) -> Path | None: ...
    @property
    def client_address(self) -> str: ...
    @property
    def plain_beyond_loopback(self) -> bool: ...
    @property
    def ca(self) -> Path | None: ...
    @property
    def peer_certificate(self) -> Path | None: ...
    @property
    def peer_key(self) -> Path | None: ...


class Peers(NamedTuple):
    """How API processes speak to one another: where PEM files lie, read again for each call."""

    ca: Path | None = None
    """Whom they trust to be one of them. None: they speak in the clear."""
    certificate: Path | None = None
    """What they show, where certificates are asked for."""
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Unavailable while a file cannot be read: it may be being renewed."""
        if self.ca is None:
            return None
        pair = (self.key, self.certificate)
        try:
            shown = [file.read_bytes() for file in (self.ca, *pair) if file is not None]
        except OSError as error:
            raise Unavailable(str(error), reason="PEER_FILES") from error
        credentials: grpc.ChannelCredentials = grpc.ssl_channel_credentials(*shown)
        return credentials


PLAIN = Peers()
GRPC = ("h2",)
"""What gRPC speaks over TLS."""


def encryption(said: Said, signed_into: Iterable[str] = ()) -> "Certificates | None":
    """What doors are encrypted with. Nothing, if nothing is said; Invalid if only half is, or if
    passwords and tokens would be told in the clear, at these addresses, where others can hear."""
    if not (said.certificate or said.key or said.client_ca or said.client_address):
        heard = [address for address in signed_into if not access.is_loopback(address)]
        if heard and not said.plain_beyond_loopback:
            raise Invalid(
                f"passwords and tokens sent to {heard[0]} could be read on the way",
                reason="PLAIN_TO_ALL",
                do="set WINDLASS_TLS__CERTIFICATE and WINDLASS_TLS__KEY, or, where something "
                "before us encrypts it, WINDLASS_TLS__PLAIN_BEYOND_LOOPBACK=true",
            )
        return None
    if said.certificate is None or said.key is None:  # who said one of them counts on all
        raise Invalid(
            "encryption needs a certificate and its key, and only part of that is set",
            reason="CERTIFICATE_UNUSABLE",
            do="set WINDLASS_TLS__CERTIFICATE and WINDLASS_TLS__KEY, or nothing of it",
        )
    if said.client_address and said.client_ca is None:
        raise Invalid(
            "nobody says whose certificates callers are to have",
            reason="CERTIFICATE_UNUSABLE",
            do="set WINDLASS_TLS__CLIENT_CA, or leave WINDLASS_TLS__CLIENT_ADDRESS empty",
        )
    apart = bool(said.client_address)
    return Certificates(Files(said.certificate, said.key, said.client_ca, apart))


def peers(said: Said) -> Peers:
    """How API processes speak to one another. Invalid if that cannot be."""
    found = Peers(said.ca, said.peer_certificate, said.peer_key)
    whole = bool(found.certificate) == bool(found.key) and (found.ca or not found.key)
    try:
        if whole:
            found.credentials()
            return found
        why = "only part of it is set"
    except Unavailable as error:
        why = error.message
    raise Invalid(
        f"what API processes show one another cannot be used: {why}",
        reason="CERTIFICATE_UNUSABLE",
        do="set WINDLASS_TLS__PEER_CERTIFICATE, WINDLASS_TLS__PEER_KEY and WINDLASS_TLS__CA, or "
        "the last alone",
    )


class Certificates:
    def __init__(self, files: Files) -> None:
        """Invalid if the files are not what they should be."""
        self._files = files
        try:
            self._read(asks=files.client_ca is not None)
        except (OSError, ssl.SSLError) as error:
            raise Invalid(
                f"the certificate {files.certificate} cannot be used: {error}",
                reason="CERTIFICATE_UNUSABLE",
                do="name a certificate and its key as WINDLASS_TLS__CERTIFICATE and "
                "WINDLASS_TLS__KEY; windlass certs init makes some to try out",
            ) from error

    def for_grpc(self) -> ssl.SSLContext:
        """Whoever has only a token needs an address of their own where certificates are asked for,
        since those are required then."""
        return self._greeting(asks=self._files.client_ca is not None and not self._files.apart)

    def for_clients(self) -> ssl.SSLContext:
        """The same for the address where only callers with certificates connect."""
        return self._greeting(asks=True)

    def for_http(self) -> ssl.SSLContext:
        return self._greeting(asks=False, protocols=())

    def _greeting(self, *, asks: bool, protocols: Sequence[str] = GRPC) -> ssl.SSLContext:
        """A context whose own certificate is never shown: each connection is handed the newest."""
        newest = self._read(asks=asks, protocols=protocols)
        seen = self._stamps()

        def greet(connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
            nonlocal newest, seen
            stamps = self._stamps()
            if stamps != seen:
                try:
                    newest = self._read(asks=asks, protocols=protocols)
                    seen = stamps
                except (OSError, ssl.SSLError) as error:
                    log.warning("the new certificate cannot be used", error=str(error))
            connection.context = newest

        greeting = self._read(asks=asks, protocols=protocols)
        greeting.sni_callback = greet
        return greeting

    def _read(self, *, asks: bool = False, protocols: Sequence[str] = ()) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._files.certificate, self._files.key)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        if asks and self._files.client_ca is not None:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _stamps(self) -> tuple[int, ...]:
        named = (self._files.certificate, self._files.key, self._files.client_ca)
        return tuple(os.stat(f).st_mtime_ns if f.exists() else 0 for f in named if f is not None)
