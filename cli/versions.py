"""`windlass version`: which version is here, and which is there."""

import platform
from typing import TYPE_CHECKING

from cli.calling import Call
from cli.complaints import explained
from cli.printing import Column, Document

if TYPE_CHECKING:
    from protos.gen.kaas import api_pb2

SECONDS = 3.0

COLUMNS = (
    Column("SIDE", lambda it: it["side"]),
    Column("VERSION", lambda it: it["version"]),
    Column("COMMIT", lambda it: it["commit"]),
    Column("BUILT", lambda it: it["built"]),
    Column("PYTHON", lambda it: it["python"]),
    Column("PLATFORM", lambda it: it["platform"], wide=True),
)


async def show(call: Call) -> None:
    """Both versions. A server that cannot be reached is named on stderr, and is no failure."""
    import grpc

    ours = {"version": client(), "python": platform.python_version(), "platform": _platform()}
    try:
        theirs = await server(call, SECONDS)
    except grpc.aio.AioRpcError as error:
        call.page.err.print(f"the server did not say: {explained(error, call.address).message}")
        theirs = None
    if call.page.for_programs:
        document = {"client": ours, "server": theirs}
        call.page.one(document, f"windlass/{ours['version']}", lambda: "")
        return
    rows: list[Document] = [{"side": "client", "commit": "", "built": "", **ours}]
    if theirs is not None:
        rows.append(
            {
                "side": "server",
                "version": theirs["git_version"],
                "commit": theirs["git_commit"],
                "built": theirs["build_date"],
                "python": theirs["go_version"],
                "platform": theirs["platform"],
            }
        )
    call.page.many(rows, COLUMNS, lambda it: str(it["version"]), none="")


def client() -> str:
    """The version of this command, or nothing if it runs from a tree that was never installed."""
    from importlib import metadata

    try:
        return metadata.version("windlass")
    except metadata.PackageNotFoundError:
        return ""


async def server(call: Call, seconds: float) -> Document:
    """The seven fields of the contract, under their names there."""
    from protos.gen.kaas.api_pb2 import GetVersionMsg
    from protos.gen.kaas.api_pb2_grpc import ClusterStub

    stub = ClusterStub(call.channel)
    reply = await call.ask(stub.GetVersionInformation, GetVersionMsg(), seconds=seconds)
    told: api_pb2.GetVersionReply.VersionInformation = reply.version_information
    return {
        "git_version": told.git_version,
        "git_commit": told.git_commit,
        "git_tree_state": told.git_tree_state,
        "build_date": told.build_date,
        "go_version": told.go_version,
        "compiler": told.compiler,
        "platform": told.platform,
    }


def _platform() -> str:
    return f"{platform.system().lower()}/{platform.machine()}"
