"""`windlass storage osd` and `windlass storage pool`: Ceph, looked after."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cli import planning
from cli.calling import Call, command, group
from cli.complaints import Code, Complaint
from cli.operation import changed
from cli.options import Plan, RequestId, Timeout, Wait, seconds
from cli.printing import Column, tame

if TYPE_CHECKING:
    from protos.gen.ops.storage_pb2_grpc import StorageStub

osds = group("Ceph's OSDs, taken out of service and in again.")
pools = group("Pools in Ceph, those of clusters too.")

SERVICE = "windlass.v1.Storage"

Ids = Annotated[list[int], typer.Argument(metavar="ID", help="Numbers, as osd list shows them.")]
PoolName = Annotated[str, typer.Argument(metavar="NAME", help="The pool's name in Ceph.")]

OSDS = (
    Column("ID", lambda it: it["id"]),
    Column("HOST", lambda it: it["host"]),
    Column("STATUS", lambda it: "Ready" if it["up"] else "Failed"),
    Column("PLACED", lambda it: "in" if it["in"] else "out"),
)
POOLS = (
    Column("NAME", lambda it: it["name"]),
    Column("ID", lambda it: it["id"]),
    Column("COPIES", lambda it: it["copies"]),
    Column("STORED", lambda it: f"{it['stored_bytes'] / 1024**3:.2f} GiB"),
    Column("OBJECTS", lambda it: it["objects"]),
    Column("CLUSTER", lambda it: it["cluster"] or ("" if it["owner"] else "not ours")),
    Column("IDENTITY", lambda it: it["identity"]),
)


class Asked(NamedTuple):
    """How a change is asked for."""

    plan: bool
    key: str
    wait: bool
    within: str


def storage(call: Call) -> "StorageStub":
    from protos.gen.ops.storage_pb2_grpc import StorageStub

    return StorageStub(call.channel)


@osds.command("list")
@command
async def list_osds(call: Call) -> None:
    """List the OSDs, as they were seen last."""
    from protos.gen.ops.storage_pb2 import ListOsdsRequest

    reply = await call.ask(storage(call).ListOsds, ListOsdsRequest())
    found = [
        {"id": it.id, "host": it.host, "up": it.up, "in": it.inside, "weight": it.weight}
        for it in reply.osds
    ]
    call.page.many(found, OSDS, lambda it: f"osd/{it['id']}", none="there are none")


@osds.command("out")
@command
async def out(
    call: Call,
    ids: Ids,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "24h",
) -> None:
    """Take OSDs out, and have what lies on them moved.

    It is refused, with all reasons, if a pool would not find a place for every copy, if the others
    would get too full, or while Ceph is not well. It is done when Ceph would let each of them be
    destroyed; until then windlass op cancel takes them in again."""
    asked = Asked(plan=plan, key=request_id, wait=wait, within=within)
    await _mark(call, "TakeOsdsOut", ids, asked)


@osds.command("in")
@command
async def back_in(
    call: Call,
    ids: Ids,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "24h",
) -> None:
    """Take OSDs in again, and have data placed on them.

    It is refused while one of them is down. Until all is where it should be, windlass op cancel
    takes them out again."""
    asked = Asked(plan=plan, key=request_id, wait=wait, within=within)
    await _mark(call, "TakeOsdsIn", ids, asked)


async def _mark(call: Call, method: str, ids: list[int], asked: Asked) -> None:
    from protos.gen.ops.storage_pb2 import TakeOsdsRequest

    request = TakeOsdsRequest(osds=ids)
    await change(call, method, request, ", ".join(f"osd.{each}" for each in ids), asked)


@pools.command("list")
@command
async def list_pools(call: Call) -> None:
    """List the pools, and whose they are."""
    from protos.gen.ops.storage_pb2 import ListPoolsRequest

    reply = await call.ask(storage(call).ListPools, ListPoolsRequest())
    names = ("id", "name", "copies", "stored_bytes", "objects", "most_bytes", "owner", "cluster")
    found = [{name: getattr(it, name) for name in (*names, "identity")} for it in reply.pools]
    call.page.many(found, POOLS, lambda it: f"pool/{it['name']}", none="there are none")


@pools.command("create")
@command
async def create_pool(
    call: Call,
    name: PoolName,
    copies: Annotated[int, typer.Option("--copies", help="0: as clusters' pools have.")] = 0,
    groups: Annotated[int, typer.Option("--groups", help="Placement groups; 0: likewise.")] = 0,
    most: Annotated[int, typer.Option("--most-bytes", help="Its quota; 0: likewise.")] = 0,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "30m",
) -> None:
    """Create a pool for block devices, and an identity that may use it and no other.

    Pools of clusters are made with them: windlass cluster create --storage."""
    from protos.gen.ops.storage_pb2 import CreatePoolRequest

    request = CreatePoolRequest(name=name, copies=copies, groups=groups, most_bytes=most)
    asked = Asked(plan=plan, key=request_id, wait=wait, within=within)
    await change(call, "CreatePool", request, f"the pool {name}", asked)


@pools.command("delete")
@command
async def delete_pool(
    call: Call,
    name: PoolName,
    confirmed: Annotated[
        str, typer.Option("--delete-data", metavar="NAME", help="Its name once more.")
    ] = "",
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "30m",
) -> None:
    """Delete a pool with all that lies in it, and its identity.

    Only what Windlass made and no cluster uses: also what windlass cluster delete --keep-data left.
    What has begun cannot be called off."""
    from protos.gen.ops.storage_pb2 import DeletePoolRequest

    if confirmed not in ("", name):
        raise Complaint(
            f"--delete-data does not say {name}", Code.USAGE, do=f"--delete-data {name}"
        )
    request = DeletePoolRequest(name=name, confirmed=confirmed)
    asked = Asked(plan=plan, key=request_id, wait=wait, within=within)
    await change(call, "DeletePool", request, f"the pool {name}", asked)


async def change(call: Call, method: str, request: Any, named: str, asked: Asked) -> None:
    """Ask for it, or only for what would be done."""
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit = seconds(asked.within)
    if asked.plan:
        await planning.foreseen(call, method, request, service=SERVICE)
        return
    _, operation = await call.change(getattr(storage(call), method), request, asked.key)
    if operation:
        call.page.say(tame(f"{named}: accepted"))
        await changed(call, operation, SUCCEEDED, wait=asked.wait, limit=limit)
        return
    call.page.say(tame(f"{named}: nothing to do, all is as it is asked for"))
    if call.page.for_programs:
        call.page.one({"subject": named, "operation": None}, named, lambda: "")
