"""The keys that secrets are sealed with, by their names."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.ops.readings import named
from protos.gen.ops import secrets_pb2 as pb
from protos.gen.ops.secrets_pb2_grpc import SecretsServicer
from store import secrets as store


class Secrets(SecretsServicer):
    def __init__(self, vault: store.Secrets) -> None:
        self._vault = vault

    async def ListKeys(self, request: pb.ListKeysRequest, context: Context) -> pb.ListKeysResponse:
        return pb.ListKeysResponse(keys=map(_key, await self._vault.keys()))

    async def RotateKey(
        self, request: pb.RotateKeyRequest, context: Context
    ) -> AsyncIterator[pb.RotateKeyResponse]:
        async for left in self._vault.rotate(named("name", request.name)):
            yield pb.RotateKeyResponse(left=left)


def _key(key: store.KeyUse) -> pb.SealKey:
    return pb.SealKey(name=key.name, used=key.is_used, known=key.is_known, secrets=key.secrets)
