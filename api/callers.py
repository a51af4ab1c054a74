"""Who is at the other end of a gRPC call that came in by `api/front.py`.

gRPC itself sees a socket of ours at the other end. The front registers each of its connections
here under the name that gRPC has for it, with where the caller really is and what certificate it
showed."""

from collections.abc import Iterable
from typing import Any, Protocol

ALTERNATIVE_NAMES = "x509_subject_alternative_name"
"""The key of the names in a certificate, in gRPC's auth context."""


class Caller(Protocol):
    """The other end of a connection that the front has accepted."""

    address: str
    """As gRPC would write it."""
    names: tuple[str, ...]
    """The URIs in the certificate that it showed and we verified."""

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


def certified_names(line: Certified) -> Iterable[str]:
    """The names in the certificate that a caller showed."""
    if found := CALLERS.get(line.peer()):
        return found.names
    names = (line.auth_context() or {}).get(ALTERNATIVE_NAMES, ())
    return [
        name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names
    ]


def sign_in(line: Line) -> None:
    """Note that a call on this connection was made by somebody who is known."""
    if found := CALLERS.get(line.peer()):
        found.sign_in()


def refuse(line: Line) -> None:
    """Note that a call on this connection was one too many."""
    if found := CALLERS.get(line.peer()):
        found.refuse()
