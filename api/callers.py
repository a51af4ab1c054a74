"""Who is at the other end of a gRPC call that came in by `api/front.py`.

gRPC itself sees a socket of ours at the other end. The front registers each of its connections
here under the name that gRPC has for it, with where the caller really is and what certificate it
showed."""

from typing import Any, Protocol

PEM = "x509_pem_cert"
"""The key of the certificate that was verified, in gRPC's auth context."""


class Caller(Protocol):
    """The other end of a connection that the front has accepted."""

    address: str
    """As gRPC would write it."""
    certificate: bytes
    """The certificate that it showed and we verified, in DER. Empty: there is none."""

    def sign_in(self) -> None:
        """Somebody was recognised in a call on it."""

    def refuse(self) -> None:
        """A call on it was one too many: what comes next on it has to wait."""


class Line(Protocol):
    """A call, as far as it tells where it comes from."""

    def peer(self) -> str: ...


class Certified(Line, Protocol):
    def auth_context(self) -> Any: ...


CALLERS: dict[str, Caller] = {}
"""By the peer that gRPC names. Each name is used once."""


def peer(line: Line) -> str:
    """Where a call comes from."""
    named = line.peer()
    found = CALLERS.get(named)
    return found.address if found else named


def certificate(line: Certified) -> bytes:
    """The certificate that a caller showed, in DER or PEM. Empty: there is none."""
    if found := CALLERS.get(line.peer()):
        return found.certificate
    for said in (line.auth_context() or {}).get(PEM, ()):
        return said if isinstance(said, bytes) else str(said).encode()
    return b""


def sign_in(line: Line) -> None:
    """Note that a call on this connection was made by somebody who is known."""
    if found := CALLERS.get(line.peer()):
        found.sign_in()


def refuse(line: Line) -> None:
    """Note that a call on this connection was one too many."""
    if found := CALLERS.get(line.peer()):
        found.refuse()
