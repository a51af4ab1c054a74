"""The keys that secrets are sealed with: commands of one group."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.calling import Call, command, group
from cli.printing import Column

if TYPE_CHECKING:
    from protos.gen.ops import secrets_pb2_grpc

secrets = group("What secrets are sealed with.")

KEYS = (
    Column("KEY", lambda it: it["name"]),
    Column("USED", lambda it: "yes" if it["used"] else "no"),
    Column("KNOWN", lambda it: "yes" if it["known"] else "no"),
    Column("SECRETS", lambda it: it["secrets"]),
)


@secrets.command("keys")
@command
async def keys(call: Call) -> None:
    """List the keys by their names, and how many secrets lie under each."""
    from protos.gen.ops.secrets_pb2 import ListKeysRequest

    reply = await call.ask(_secrets(call).ListKeys, ListKeysRequest())
    items = [
        {"name": key.name, "used": key.used, "known": key.known, "secrets": key.secrets}
        for key in reply.keys
    ]
    call.page.many(items, KEYS, lambda it: str(it["name"]), none="there are no keys")


@secrets.command("rotate-key")
@command
async def rotate_key(
    call: Call, name: Annotated[str, typer.Argument(metavar="KEY", help="Which one to use now.")]
) -> None:
    """Seal with another key from now on, and put all secrets under it.

    The key is one that every process has: python -m store key KEY adds it to a key file. Everything
    runs on meanwhile. If this is broken off, ask for it again."""
    from protos.gen.ops.secrets_pb2 import RotateKeyRequest

    asked = RotateKeyRequest(name=name)
    metadata = (("x-request-id", call.keyed("")),)
    async for reply in _secrets(call).RotateKey(asked, metadata=metadata):
        if reply.left:
            call.page.say(f"{reply.left} secrets to go")
    call.page.say(f"every secret lies under {name}")


def _secrets(call: Call) -> "secrets_pb2_grpc.SecretsStub":
    from protos.gen.ops.secrets_pb2_grpc import SecretsStub

    return SecretsStub(call.channel)
