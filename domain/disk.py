"""Disks that take no more writes: what is said of that, whatever found it out."""

import errno
from collections.abc import Iterator

from domain.errors import Unavailable

FULL, READ_ONLY = "DISK_FULL", "READ_ONLY"

REASONS = frozenset({FULL, READ_ONLY})

ERRNOS = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
    errno.EROFS: READ_ONLY,
}

SQLITE = {13: FULL, 8: READ_ONLY}
"""SQLITE_FULL and SQLITE_READONLY."""

POSTGRES = {"53100": FULL, "25006": READ_ONLY}
"""disk_full and read_only_sql_transaction."""


def trouble(error: BaseException, what: str) -> Unavailable | None:
    """What a failed write says of the disk below `what`. None: it failed for another reason."""
    for each in _causes(error):
        if reason := _reason(each):
            return _full(what) if reason == FULL else _read_only(what)
    return None


def _full(what: str) -> Unavailable:
    return Unavailable(
        f"the disk is full: {what} cannot be written",
        reason="DISK_FULL",
        do=f"free space on the disk that has {what}; nothing has to be restarted",
    )


def _read_only(what: str) -> Unavailable:
    return Unavailable(
        f"{what} is read-only",
        reason="READ_ONLY",
        do=f"make {what} writable again: mount its disk read-write, or end the server's read-only "
        "mode; nothing has to be restarted",
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in ERRNOS:
        return ERRNOS[error.errno]
    code: int = getattr(error, "sqlite_errorcode", None) or 0
    state: str = getattr(error, "sqlstate", None) or ""
    return SQLITE.get(code & 0xFF) or POSTGRES.get(state, "")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what the library's error wraps, and what it was raised from."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        wrapped = getattr(found, "orig", None)
        found = wrapped if isinstance(wrapped, BaseException) else found.__cause__
