"""A stage: something real that we are held against, what it takes, and the tests that do it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "conformance"
"""Where everything goes that stages fetch, build and log. What lies there is used again."""


class MissingError(Exception):
    """Something that a stage takes cannot be had here. The message says what, and what to do."""


class Stage(NamedTuple):
    """One of them. It is skipped where `prepare` says that something is missing."""

    name: str
    proves: str
    prepare: Callable[[], Awaitable[str]]
    """Fetch and build what it takes, and tell its versions. Doing it again finds it there."""
    tests: tuple[str, ...]
    """Modules of tests, by their paths below the root. They may be of the suite's."""
    seconds: float = 300
    """How long its tests may take in all."""
