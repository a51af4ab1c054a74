"""`windlass cluster upgrade` and what it can be told: a cluster's next version of Kubernetes."""

from enum import StrEnum
from typing import Annotated

import typer

from cli import planning
from cli.calling import Call, command
from cli.cluster import clusters
from cli.operation import changed
from cli.options import Cluster, Plan, RequestId, Timeout, Wait, seconds
from cli.printing import Column, tame

WHY = "windlass-why"
"""Beside the reply: why nothing is offered."""

VERSIONS = (Column("VERSION", lambda it: it["version"]),)


def belongs_to(app: typer.Typer) -> None:
    """Make these commands of that group."""
    app.command("upgrade")(upgrade)
    app.command("upgrades")(upgrades)


class Stop(StrEnum):
    """Before what an upgrade can wait, as it is typed."""

    POOL = "pool"


@command
async def upgrade(
    call: Call,
    name: Cluster,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="One that windlass cluster upgrades shows.")
    ],
    approve_each: Annotated[
        Stop | None,
        typer.Option("--approve-each", help="Wait before each until windlass op approve."),
    ] = None,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "4h",
) -> None:
    """Upgrade a cluster in place, node by node.

    The control plane comes first, after a copy of its etcd. Every node is emptied before its
    kubelet is renewed. The first node that does not come back ends it; asking for the same version
    again goes on with those that are left. With --approve-each=pool it waits before each pool; what
    nobody approves in time is called off, and goes on when it is asked for again."""
    from protos.gen.kaas.api_pb2 import UpgradeClusterMsg
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit = seconds(within)
    request = UpgradeClusterMsg(name=name, version=version)
    wishes = (("windlass-approve-each", approve_each.value),) if approve_each else ()
    if plan:
        await planning.foreseen(call, "UpgradeCluster", request, wishes)
        return
    method = clusters(call).UpgradeCluster
    _, operation = await call.change(method, request, request_id, wishes=wishes)
    call.page.say(f"cluster {name}: the upgrade to {version} is accepted")
    await changed(call, operation, SUCCEEDED, wait=wait, limit=limit)


@command
async def upgrades(call: Call, name: Cluster) -> None:
    """List what a cluster can be upgraded to.

    Where that is nothing, it says why."""
    from protos.gen.kaas.api_pb2 import GetUpgradeClusterInformationMsg

    request = GetUpgradeClusterInformationMsg(name=name)
    reply, beside = await call.ask_all(clusters(call).GetUpgradeClusterInformation, request)
    why = tame(beside.get(WHY, ""))
    call.page.many(
        [{"version": version} for version in reply.versions],
        VERSIONS,
        lambda it: str(it["version"]),
        beside={"cluster": name, "why_none": why or None},
        none=f"cluster {name} can be upgraded to nothing now{f': {why}' if why else ''}",
    )
