"""Errors of health: what is wrong with an instance that is READY.

The states of the contract have no word for that, so it stands in the errors of the instance, each
behind a prefix. By it the controller knows that such a report ends no work, and replaces these
errors alone."""

from collections.abc import Iterable

PREFIX = "Health: "
WELL = f"{PREFIX}ok"
"""Nothing is wrong any more. It is said, and not kept."""

MOST = 20
"""So many are kept of an instance."""

LONGEST = 500
"""Characters of one."""


def said_of(faults: Iterable[str]) -> list[str]:
    """What a resource manager says of what it found."""
    return [f"{PREFIX}{fault}"[:LONGEST] for fault in faults][:MOST] or [WELL]


def of_health(errors: Iterable[str]) -> list[str]:
    """Those of some errors that are of health."""
    return [each for each in errors if each.startswith(PREFIX) and each != WELL]


def of_work(errors: Iterable[str]) -> list[str]:
    """Those that are of work that failed."""
    return [each for each in errors if not each.startswith(PREFIX)]


def is_of_health(errors: Iterable[str]) -> bool:
    """Whether a report is one of health, and not the end of work."""
    return any(each.startswith(PREFIX) for each in errors)


def refreshed(errors: Iterable[str], said: Iterable[str]) -> list[str]:
    """The errors of an instance after a report of health."""
    kept = [each[:LONGEST] for each in of_health(said)][:MOST]
    return [*of_work(errors), *kept]
