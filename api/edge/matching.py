"""Query by example: what is set in a message that shows something narrows what is shown.

Defaults set nothing, so false, 0 and the empty text cannot be asked for."""

from typing import Any

from google.protobuf.message import Message

from api.edge.masks import FIELDS

IGNORED = frozenset(
    {
        "distributed_match_engine.Loc",
        "distributed_match_engine.Timestamp",
        "edgeproto.AppInstRuntime",
    }
)
"""Messages that narrow nothing."""

COUNTED = frozenset(
    {"distributed_match_engine.AppPort", "edgeproto.ConfigFile", "edgeproto.FlavorInfo"}
)
"""Messages of which only the number matters where they are repeated."""


def narrows(example: Message) -> bool:
    """Whether an example leaves anything out."""
    return any(
        field.message_type is None or field.is_repeated or narrows(value)
        for field, value in _set(example)
    )


def matches(example: Message, message: Message) -> bool:
    """Whether everything that is set in the example is the same in the message."""
    return all(_same(field, value, getattr(message, field.name)) for field, value in _set(example))


def _set(example: Message) -> list[tuple[Any, Any]]:
    return [
        (field, value)
        for field, value in example.ListFields()
        if field.name != FIELDS and not (field.message_type and _name(field) in IGNORED)
    ]


def _same(field: Any, wanted: Any, found: Any) -> bool:
    if field.message_type is None:
        return bool(wanted == found)
    if not field.is_repeated:
        return matches(wanted, found)
    if field.message_type.GetOptions().map_entry:
        return dict(wanted) == dict(found)
    if len(wanted) != len(found):
        return False
    return _name(field) in COUNTED or all(map(matches, wanted, found))


def _name(field: Any) -> str:
    name: str = field.message_type.full_name
    return name
