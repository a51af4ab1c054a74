"""The hosts that a manager knows, and which daemons run where."""

from typing import Any

from clients.ceph.session import Session
from domain.storage_answers import version

PAGED_SINCE = 18
ALL = {"limit": "-1", "sort": "+hostname"}
"""From that release on a few come at a time, unless it is said how many; before that nothing could
be said, and whoever did was refused."""


async def hosts(session: Session, summary: Any) -> Any:
    """`summary` tells the release."""
    major, _, _ = version(summary.get("version", "")).partition(".")
    paged = major.isdigit() and int(major) >= PAGED_SINCE
    return await session.get("host", **(ALL if paged else {}))
