"""Answers that are written already. A handler may give one of its stream as the bytes it goes out
as, if it has them: to make a message of them would be undone at once."""

from typing import TypeVar

from google.protobuf.message import Message

Kind = TypeVar("Kind", bound=Message)


def written(answer: Message | bytes) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def opened(answer: Kind | bytes, kind: type[Kind]) -> Kind:
    """For those who look into it, or say it in other ways."""
    return kind.FromString(answer) if isinstance(answer, bytes) else answer
