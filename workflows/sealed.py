"""What Temporal keeps of our work, sealed: arguments, answers, and what failures say.

    {"encoding": "binary/encrypted", "encryption-key-id": "file-1"}   one payload, and inside it
    the whole payload that it was                                     another

What is not marked so is read as it is: it was written before there was a seal, by a worker that
this one takes over from. Ids (those of steps name the cluster or node), the names of workflows and
steps, the kinds of failures, queues and times are no payloads, and stay in the clear."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
)

ENCODING = b"binary/encrypted"
KEY_NAME = "encryption-key-id"

PURPOSE = "payload-1"
"""What their keys are made for, and how they are written. A change of it is a new number."""


class Seals(Protocol):
    """A key that any number of things may be sealed with."""

    @property
    def name(self) -> str:
        """Which key it is. This much is written in the clear."""

    def close_one(self, purpose: str, secret: bytes) -> bytes: ...

    def open_one(self, purpose: str, sealed: bytes, name: str) -> bytes:
        """What was sealed for that purpose with the key of that name. Failed if it opens with
        another key, or none."""


class Sealing(PayloadCodec):
    """Seals every payload on its way to Temporal, and opens it on its way back."""

    def __init__(self, seal: Seals) -> None:
        self._seal = seal

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._closed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._opened(payload) for payload in payloads]

    def _closed(self, payload: Payload) -> Payload:
        return Payload(
            metadata={"encoding": ENCODING, KEY_NAME: self._seal.name.encode()},
            data=self._seal.close_one(PURPOSE, payload.SerializeToString()),
        )

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        name = payload.metadata.get(KEY_NAME, b"").decode(errors="replace") or self._seal.name
        return Payload.FromString(self._seal.open_one(PURPOSE, payload.data, name))


def converter(seal: Seals) -> DataConverter:
    """How everything is written that we give to Temporal, with this seal."""
    return replace(
        pydantic_data_converter,
        payload_codec=Sealing(seal),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
