"""Whatever is sent, the answer is one of ours: no bug is met, no word of Python gets out."""

import random
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from api.__main__ import Api
from protos.gen.kaas import api_pb2 as pb
from tests.api.caller import Caller, wanted
from tests.api.hands import Hands

STRANGE = ("", "\0", "a\nb", "é" * 300, "-", "..", "'; DROP TABLE clusters; --", "%s", "hello")
NUMBERS = (-(2**31), -1, 0, 1, 2, 2**31 - 1)
LARGE = (-(2**63), 2**63 - 1, 10**12)

BUGS = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}


def filled(described: Any, chance: random.Random, depth: int = 3) -> Message:
    """A message of a type with strange things in some of its fields."""
    message = GetMessageClass(described)()
    for field in described.fields:
        if chance.random() < 0.3:
            continue
        values = [_value(field, chance, depth) for _ in range(chance.choice((1, 2, 5)))]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.is_repeated:
            getattr(message, field.name).extend(value for value in values if value is not None)
        elif field.message_type is not None:
            if depth:
                getattr(message, field.name).CopyFrom(values[0])
        else:
            setattr(message, field.name, values[0])
    return message


def _value(field: Any, chance: random.Random, depth: int) -> Any:
    if field.message_type is not None:
        return filled(field.message_type, chance, depth - 1) if depth else None
    if field.cpp_type == field.CPPTYPE_STRING:
        return chance.choice(STRANGE) if field.type == field.TYPE_STRING else b"\xff"
    if field.cpp_type == field.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return chance.choice((*NUMBERS, float("nan"), float("-inf"), 1e308))
    wide = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
    number = chance.choice(NUMBERS + LARGE if wide else NUMBERS)
    unsigned = field.cpp_type in (field.CPPTYPE_UINT64, field.CPPTYPE_UINT32)
    return abs(number) if unsigned else number


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """The same with some bytes changed, cut off or doubled."""
    data = bytearray(raw or b"\x0a\x05hello")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data))
        data[place : place + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 3))
        if not data:
            return b"\xff"
    return bytes(data)


async def sent(caller: Caller, method: str, raw: bytes, *, streams: bool) -> grpc.StatusCode:
    """The code that the bytes are answered with."""
    try:
        if not streams:
            await caller.raw(method, raw)
            return grpc.StatusCode.OK
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
        call = caller.channel.unary_stream(f"/{method}")
        stream = call(raw, timeout=0.2)  # some have nothing to say, and say it for long
        await stream.read()
        stream.cancel()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_that_is_sent_finds_a_bug(
    seed: int, api: Api, caller: Caller, hands: Hands
) -> None:
    chance = random.Random(seed)  # noqa: S311 - it is to be the same every time
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    for service in api.services:
        for method in service.described.methods:
            name = f"{service.name}/{method.name}"
            if method.client_streaming:
                continue
            for _ in range(10):
                whole = filled(method.input_type, chance).SerializeToString()
                for raw in (whole, mutated(whole, chance)):
                    code = await sent(caller, name, raw, streams=method.server_streaming)
                    assert code not in BUGS, f"{name} {raw!r}"
    reply = await caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20)
    assert reply.ok
