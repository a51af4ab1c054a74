"""The keys of messages as text."""

from typing import Any

from google.protobuf.message import Message

from domain import key_text


def written(key: Message) -> str:
    """A key as text. Invalid if it is too long to be kept."""
    return key_text.written(_plain(key))


def put(plain: Any) -> str:
    """A key out of a key, as text again: what was read from one as JSON."""
    return key_text.written(plain)


def of(message: Any) -> str:
    """The key of whatever has one, as text."""
    return written(message.key)


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
        plain[field.name] = _plain(value) if field.message_type else value
    return plain
