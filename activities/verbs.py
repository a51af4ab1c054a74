"""Which activities there are, found by looking at the classes: nothing is registered by hand."""

from collections.abc import Callable
from typing import Any

BOOKS_QUEUE = "workflows"
"""Workflows and books share a process: a book is a local activity."""


def name_of(verb: Callable[..., Any]) -> str:
    """The name an activity goes by in histories, such as `machines.allocate`."""
    definition = verb.__temporal_activity_definition  # type: ignore[attr-defined]
    return str(definition.name)


def queue_of(verb: Callable[..., Any]) -> str:
    """The queue of an activity is the first word of its name."""
    return name_of(verb).partition(".")[0]


def verbs(capability: object) -> list[Callable[..., Any]]:
    """The activities that an object offers, bound to it."""
    found = (getattr(capability, name) for name in dir(type(capability)) if name[0] != "_")
    return [verb for verb in found if hasattr(verb, "__temporal_activity_definition")]
