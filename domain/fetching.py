"""Which addresses may be asked on behalf of a caller.

Whoever may name a URL that we fetch can look at our network through us, so only what lies below a
prefix that an operator has named is asked."""

import posixpath
from collections.abc import Iterable
from urllib.parse import SplitResult, unquote, urlsplit

PORTS = {"http": 80, "https": 443}

_AMBIGUOUS = frozenset("@\\ ")
"""What two readers of a URL may take for different things; nobody needs it."""

DECODINGS = 4
"""A path that is still encoded after so many decodings is refused."""


def is_url(text: str) -> bool:
    """Whether a text is to be fetched rather than taken for what it says."""
    return text.startswith(("http://", "https://"))


def is_allowed(url: str, prefixes: Iterable[str]) -> bool:
    """Whether a URL lies below one of the prefixes: scheme, host and port are the same, and its
    path is the prefix's or below it.

    A server, or a proxy before it, may decode a path any number of times and may leave out what
    follows a semicolon. The path has to lie below the prefix in each of these readings."""
    if not url.isprintable() or not _AMBIGUOUS.isdisjoint(url):
        return False
    try:
        wanted = urlsplit(url)
        return any(_below(wanted, urlsplit(prefix)) for prefix in prefixes)
    except ValueError:  # no port is that large, no host looks like that
        return False


def _below(wanted: SplitResult, prefix: SplitResult) -> bool:
    if wanted.scheme not in PORTS or _origin(wanted) != _origin(prefix):
        return False
    path, allowed = wanted.path, {*_readings(prefix.path)}
    for _ in range(DECODINGS):
        if any(not _is_in(_walked(each), allowed) for each in (path, _bare(path))):
            return False
        decoded = unquote(path, errors="strict")
        if decoded == path:
            return True
        if not decoded.isprintable() or "\\" in decoded:
            return False
        path = decoded
    return False


def _readings(path: str) -> tuple[str, str]:
    """A prefix as an operator wrote it, and decoded."""
    return _walked(path).rstrip("/"), _walked(unquote(path)).rstrip("/")


def _is_in(path: str, allowed: Iterable[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in allowed)


def _bare(path: str) -> str:
    """A path without the parameters of its segments, as servers of servlets read it."""
    return "/".join(segment.partition(";")[0] for segment in path.split("/"))


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or PORTS.get(url.scheme)


def _walked(path: str) -> str:
    """A path once its dots are followed."""
    return posixpath.normpath("/" + path.lstrip("/"))
