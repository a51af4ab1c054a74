"""Keys as text: what records are kept under, sorted by, and called in some refusals.

The first controller was written in Go, and its JSON stands in what clients compare; so names stand
as in the contract, empty ones are left out, keys in keys never are, and what Go escapes is
escaped."""

import json
from typing import Any

from google.protobuf.message import Message

from domain.refusal import Refusal, refuse_if

LONGEST = 1200
"""Bytes. Longer than all names that people give, and short enough for every index."""

_ESCAPED = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def written(key: Message) -> str:
    """A key as text. Invalid if it is too long to be kept."""
    return limited(_compact(_plain(key)))


def put(plain: Any) -> str:
    """A key out of a key, as text again: what was read from one as JSON."""
    return _escape(_compact(plain))


def of(message: Any) -> str:
    """The key of whatever has one, as text."""
    return written(message.key)


def limited(text: str) -> str:
    escaped = _escape(text)
    refuse_if(len(escaped.encode()) > LONGEST, Refusal.KEY_TOO_LONG, most=LONGEST)
    return escaped


def _compact(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _escape(text: str) -> str:
    return text.translate(_ESCAPED)


def is_whole(key: Message) -> bool:
    """Whether no part of a key is empty, so that it can be only one record's."""
    return all(
        is_whole(getattr(key, field.name)) if field.message_type else getattr(key, field.name)
        for field in key.DESCRIPTOR.fields
    )


def _plain(key: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in key.DESCRIPTOR.fields:
        value = getattr(key, field.name)
        if field.message_type:
            plain[field.name] = _plain(value)
        elif value:
            plain[field.name] = value
    return plain
