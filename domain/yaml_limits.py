"""How much a YAML text may hold, found out before anything is built of it.

Only libyaml's events are read, one after the other, and reading stops at the first limit: memory
and time stay small however the text was made. Building nodes first is what a crafted text uses."""

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, which is ten times as fast as the one in Python."""

BYTES = 2**20
DOCUMENTS = 1000
NODES = 50_000
ALIASES = 1000
DEPTH = 64

OPENS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
CLOSES = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class TooComplexError(Exception):
    """The text holds more than it may. Says of what, and how much that may be."""


def check_size(text: str) -> None:
    """TooComplexError for what can be seen without reading the text as YAML; takes no time."""
    if len(text) > BYTES or len(text.encode(errors="replace")) > BYTES:
        raise TooComplexError(f"it is longer than {BYTES} bytes")
    if text.count("\n---") > DOCUMENTS:
        raise TooComplexError(f"it has more than {DOCUMENTS} documents")


def check(text: str) -> None:
    """TooComplexError if it holds more than it may; YAMLError if it is no YAML."""
    check_size(text)
    nodes = aliases = depth = 0
    for event in yaml.parse(text, LOADER):
        nodes += isinstance(event, (*OPENS, yaml.ScalarEvent, yaml.DocumentStartEvent))
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, OPENS) - isinstance(event, CLOSES)
        if nodes > NODES:
            raise TooComplexError(f"it has more than {NODES} nodes")
        if aliases > ALIASES:
            raise TooComplexError(f"it has more than {ALIASES} aliases")
        if depth > DEPTH:
            raise TooComplexError(f"it is nested deeper than {DEPTH} levels")
