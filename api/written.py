"""Answers that are written already. A handler may give what it streams as the bytes that go out by
gRPC, if it has them: a message made of them would be undone at once. Other ways in open them."""

from typing import TypeVar

from google.protobuf.message import Message

Kind = TypeVar("Kind", bound=Message)


def written(answer: Message | bytes) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def opened(answer: Kind | bytes, kind: type[Kind]) -> Kind:
    """For those who look into it, or say it in other ways."""
    return kind.FromString(answer) if isinstance(answer, bytes) else answer
