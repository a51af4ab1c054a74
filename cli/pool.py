"""`windlass pool`: the pools of workers that a cluster has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cli import planning
from cli.calling import Call, command, group
from cli.cluster import clusters, labelled, pooled
from cli.complaints import Code, Complaint
from cli.operation import changed
from cli.options import Cluster, Plan, RequestId, Sizes, Timeout, Wait, seconds
from cli.ownership import warn_of_owner

if TYPE_CHECKING:
    from protos.gen.kaas import api_pb2

app = group("Pools of workers in clusters that stand.")


@app.command("add")
@command
async def add(
    call: Call,
    name: Cluster,
    pools: Annotated[
        list[str],
        typer.Argument(metavar="POOL=COUNT[:TYPE]", help="Pools of names that are still free."),
    ],
    instance_type: Annotated[
        str,
        typer.Option(
            "--instance-type",
            metavar="TYPE",
            help="Of every pool that names none; else any machine.",
        ),
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="K=V", help="On every new node. May be repeated."),
    ] = None,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Add pools of workers to a cluster.

    All of them are accepted or none is."""
    from protos.gen.kaas.api_pb2 import AddNodePoolMsg
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit, labels = seconds(within), labelled(label or ())
    specs = [pooled(text, labels, instance_type) for text in pools]
    request = AddNodePoolMsg(clusterName=name, worker_node_pools=specs)
    if plan:
        await planning.foreseen(call, "AddNodePool", request)
        return
    await warn_of_owner(call, name)
    _, operation = await call.change(clusters(call).AddNodePool, request, request_id)
    call.page.say(f"cluster {name}: {', '.join(spec.name for spec in specs)} accepted")
    await changed(call, operation, SUCCEEDED, wait=wait, limit=limit)


@app.command("scale")
@command
async def scale(
    call: Call,
    name: Cluster,
    pools: Sizes,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Give pools of a cluster another size.

    Nodes that go are emptied first; pods that will not leave in time go with them. Asking for the
    size that a pool has makes good what it lacks; if it lacks no node, those that are not Ready for
    minutes are repaired."""
    limit = seconds(within)
    await scaled(call, name, pools, request_id, plan=plan, wait=wait, limit=limit)


@app.command("delete")
@command
async def delete(
    call: Call,
    name: Cluster,
    pools: Annotated[list[str], typer.Argument(metavar="POOL", help="Their names.")],
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Take pools out of a cluster and give their machines back.

    Their nodes are emptied first. A name is free again once its machines are given back."""
    from protos.gen.kaas.api_pb2 import DeleteNodePoolMsg
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit = seconds(within)
    request = DeleteNodePoolMsg(clusterName=name, node_pool_names=pools)
    if plan:
        await planning.foreseen(call, "DeleteNodePool", request)
        return
    await warn_of_owner(call, name)
    _, operation = await call.change(clusters(call).DeleteNodePool, request, request_id)
    call.page.say(f"cluster {name}: {', '.join(pools)} on the way out")
    await changed(call, operation, SUCCEEDED, wait=wait, limit=limit)


async def scaled(
    call: Call,
    name: str,
    pools: Sequence[str],
    request_id: str,
    *,
    plan: bool,
    wait: bool,
    limit: float | None,
) -> None:
    """Ask for other sizes. A server that finds every pool as it is wanted starts nothing."""
    from protos.gen.kaas.api_pb2 import ScaleNodePoolMsg
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    request = ScaleNodePoolMsg(clusterName=name, node_pools=[_sized(text) for text in pools])
    if plan:
        await planning.foreseen(call, "ScaleNodePool", request)
        return
    await warn_of_owner(call, name)
    _, operation = await call.change(clusters(call).ScaleNodePool, request, request_id)
    if operation:
        call.page.say(f"cluster {name}: {', '.join(pools)} accepted")
        await changed(call, operation, SUCCEEDED, wait=wait, limit=limit)
        return
    why = f"windlass cluster why {name} shows nodes that are not Ready"
    call.page.say(f"cluster {name}: nothing to do, {', '.join(pools)} by now; {why}")
    if call.page.for_programs:
        call.page.one({"name": name, "operation": None}, f"cluster/{name}", lambda: "")


def _sized(text: str) -> "api_pb2.ScaleNodePoolSpec":
    """A pool's size as it is typed: NAME=COUNT."""
    from protos.gen.kaas.api_pb2 import ScaleNodePoolSpec

    name, _, count = text.partition("=")
    if not name or not count.isdecimal():
        raise Complaint(
            f"{text!r} is no size of a pool",
            Code.USAGE,
            do="write it NAME=COUNT, such as worker=3",
        )
    return ScaleNodePoolSpec(name=name, count=int(count))
