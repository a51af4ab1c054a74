"""Masks: which parts of a message a change names, as dotted field numbers.

A mask comes down to leaves. A leaf is a scalar, or anything repeated as a whole: no path leads into
a list."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import Message

from domain.refusal import Refusal

FIELDS = "fields"
"""The field that the mask itself is in. It is part of no mask."""

LONGEST_PATH = 100


class Mask(NamedTuple):
    leaves: frozenset[str]

    def names(self, path: str) -> bool:
        """Whether the mask names a part, or anything below it."""
        return any(leaf == path or leaf.startswith(f"{path}.") for leaf in self.leaves)

    def merge(self, into: Message, given: Message) -> None:
        """Copy what is named, empty values too: that is how something is cleared."""
        for leaf in sorted(self.leaves):
            _copy(into, given, [int(number) for number in leaf.split(".")])


def mask(message: Any, *, lax: bool) -> Mask:
    """What the `fields` of a message name. A part stands for everything below it. A path that
    leads nowhere is Invalid, or with `lax` ignored."""
    leaves: set[str] = set()
    for path in message.fields:
        found = _found(message.DESCRIPTOR, path)
        if not (found or lax):
            raise Refusal.FIELD_UNKNOWN(path=path[:LONGEST_PATH])
        leaves.update(found)
    return Mask(frozenset(leaves))


def _found(described: Any, path: str) -> frozenset[str]:
    """The leaves that a path names. None: it leads nowhere."""
    number, dot, rest = path.partition(".")
    field = described.fields_by_number.get(int(number)) if number in _NUMBERS else None
    if field is None or field.name == FIELDS:
        return frozenset()
    if field.is_repeated:
        into = not dot or (field.message_type and _found(field.message_type, rest))
        return frozenset({number} if into else ())
    if field.message_type is None:
        return frozenset(() if dot else {number})
    below = _found(field.message_type, rest) if dot else frozenset(_leaves(field.message_type))
    return frozenset(f"{number}.{leaf}" for leaf in below)


_NUMBERS = frozenset(map(str, range(1, 100)))
"""As they are written, without zeros in front; no message of the contract has more."""


def _leaves(described: Any) -> Iterator[str]:
    for field in described.fields:
        if field.name == FIELDS:
            continue
        if field.message_type is None or field.is_repeated:
            yield str(field.number)
        else:
            yield from (f"{field.number}.{leaf}" for leaf in _leaves(field.message_type))


def _copy(into: Any, given: Any, path: Iterable[int]) -> None:
    *parents, last = path
    for number in parents:
        name = into.DESCRIPTOR.fields_by_number[number].name
        into, given = getattr(into, name), getattr(given, name)
    field = into.DESCRIPTOR.fields_by_number[last]
    into.ClearField(field.name)
    if field.is_repeated:
        getattr(into, field.name).MergeFrom(getattr(given, field.name))
    else:
        setattr(into, field.name, getattr(given, field.name))
