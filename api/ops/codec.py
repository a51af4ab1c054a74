"""Opens what was sealed for Temporal, for those who look at its web page or use its command."""

from collections.abc import Sequence
from typing import Protocol

from temporalio.api.common.v1 import Payload

from api.asking import Context, notes
from api.browsers import Alias, Policy
from api.dialects import PROTO_BYTES
from protos.gen.ops import codec_pb2 as pb
from protos.gen.ops.codec_pb2_grpc import CodecServicer


def decoding(pages: Sequence[str], policy: Policy) -> Alias:
    """Where the web page of Temporal has payloads opened, and its pages may ask for that alone."""
    its = policy._replace(origins=policy.origins | frozenset(pages))
    return Alias("/codec/decode", "windlass.v1.Codec/Decode", its, PROTO_BYTES)


class Opens(Protocol):
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]: ...


class Codec(CodecServicer):
    def __init__(self, sealing: Opens) -> None:
        self._sealing = sealing

    async def Decode(self, request: pb.Payloads, context: Context) -> pb.Payloads:
        sealed = [Payload(metadata=dict(it.metadata), data=it.data) for it in request.payloads]
        opened = await self._sealing.decode(sealed)
        notes().discloses, notes().subject = bool(opened), "payloads of Temporal"
        return pb.Payloads(
            payloads=[pb.Payload(metadata=dict(it.metadata), data=it.data) for it in opened]
        )
