"""Which addresses may be asked on behalf of a caller.

Whoever may name a URL that we fetch can look at our network through us, so only what lies below a
prefix that an operator has named is asked."""

import posixpath
from collections.abc import Iterable
from urllib.parse import SplitResult, unquote, urlsplit

PORTS = {"http": 80, "https": 443}

_AMBIGUOUS = frozenset("@\\ ")
"""What two readers of a URL may take for different things; nobody needs it."""


def is_url(text: str) -> bool:
    """Whether a text is to be fetched rather than taken for what it says."""
    return text.startswith(("http://", "https://"))


def is_allowed(url: str, prefixes: Iterable[str]) -> bool:
    """Whether a URL lies below one of the prefixes: scheme, host and port are the same, and its
    path is the prefix's or below it, however it is spelt."""
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
    allowed, path = _path(prefix).rstrip("/"), _path(wanted)
    return path == allowed or path.startswith(f"{allowed}/")


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or PORTS.get(url.scheme)


def _path(url: SplitResult) -> str:
    """The path as a server would understand it at worst: unquoted, and walked through."""
    return posixpath.normpath("/" + unquote(url.path).lstrip("/"))
