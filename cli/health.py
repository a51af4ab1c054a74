"""What is wrong with clusters and machines, and mending it: commands of two groups."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import documents, planning
from cli.calling import Call, command, group
from cli.cluster import app as cluster
from cli.complaints import Code, Complaint
from cli.operation import changed
from cli.options import Cluster, Plan, PolicyName, RequestId, Timeout, Wait, seconds
from cli.printing import Column, Document, tame

if TYPE_CHECKING:
    from protos.gen.ops import health_pb2_grpc

machine = group("Machines that failed, and are not taken any more.")

QUARANTINED = (
    Column("MACHINE ID", lambda it: it["machine_id"]),
    Column("HOSTNAME", lambda it: it["hostname"]),
    Column("FAILURES", lambda it: it["failures"]),
    Column("LAST", lambda it: documents.on_the_wall(it["last"])),
    Column("UNTIL", lambda it: documents.on_the_wall(it["until"])),
    Column("CLUSTER", lambda it: it["cluster"]),
    Column("WHY", lambda it: it["why"]),
)


@cluster.command("why")
@command
async def why(call: Call, name: Cluster) -> None:
    """Say why a cluster is as it is, and what to do now.

    Causes are told one below the other, from the cluster to its machines. Nothing but the server's
    own records is asked, so the answer is there while MAAS and the cluster are not."""
    from protos.gen.ops.health_pb2 import WhyRequest

    reply = await call.ask(health(call).Why, WhyRequest(cluster=name))
    document = documents.why(reply)
    call.page.one(document, f"cluster/{name}", lambda: told(document))


def told(document: Document) -> str:
    """The reading as people get it: causes, each further in than what it causes, and what to do."""
    lines = []
    for cause in document["causes"]:
        since = f"  (since {documents.on_the_wall(cause['since'])})" if cause["since"] else ""
        lines.append(f"{'  ' * cause['depth']}{tame(cause['says'])}{since}")
    for advice in document["advice"]:
        if advice["command"]:
            lines.append(f"do: {tame(advice['command'])}\n      {tame(advice['because'])}")
        else:
            lines.append(f"wait: {tame(advice['because'])}")
    if not document["advice"]:
        lines.append("nothing needs to be done")
    return "\n".join(lines)


@cluster.command("repair")
@command
async def repair(
    call: Call,
    name: Cluster,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="NODE",
            help="Only this one, however short it has been ill. May be repeated.",
        ),
    ] = None,
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "2h",
) -> None:
    """Mend the nodes of a cluster that do not work.

    A machine that does not answer is restarted first, and replaced if that does not help. What may
    not be mended now is left alone; if that is all, it is refused with the reasons."""
    from protos.gen.ops.health_pb2 import RepairRequest
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit = seconds(within)
    request = RepairRequest(cluster=name, nodes=node or ())
    if plan:
        await planning.foreseen(call, "Repair", request, service="windlass.v1.Health")
        return
    _, operation = await call.change(health(call).Repair, request, request_id)
    if operation:
        call.page.say(f"cluster {name}: the repair is accepted")
        await changed(call, operation, SUCCEEDED, wait=wait, limit=limit)
        return
    call.page.say(f"cluster {name}: nothing to do, every node works")
    if call.page.for_programs:
        call.page.one({"name": name, "operation": None}, f"cluster/{name}", lambda: "")


@cluster.command("policy")
@command
async def policy(
    call: Call,
    name: Cluster,
    wanted: Annotated[
        PolicyName | None,
        typer.Argument(metavar="POLICY", help="off, propose or automatic; else it is shown."),
    ] = None,
) -> None:
    """Show or set what is done about nodes by itself.

    That is about those that do not work, while nobody asks. propose has the message of the cluster
    say what a repair would do; automatic does it."""
    from protos.gen.ops import health_pb2 as pb

    if wanted is None:
        reply = await call.ask(health(call).GetPolicy, pb.GetPolicyRequest(cluster=name))
    else:
        request = pb.SetPolicyRequest(cluster=name, policy=pb.Policy.Value(wanted.name))
        reply, _ = await call.change(health(call).SetPolicy, request)
    document = documents.health_policy(reply)
    said = f"cluster {name}: {document['policy'].lower()}"
    call.page.one(document, f"cluster/{name}", lambda: said)


@machine.command("quarantined")
@command
async def quarantined(call: Call) -> None:
    """List the machines that are not taken any more.

    They failed too often, in whatever clusters."""
    from protos.gen.ops.health_pb2 import QuarantinedRequest

    reply = await call.ask(health(call).Quarantined, QuarantinedRequest())
    call.page.many(
        [documents.quarantined(each) for each in reply.machines],
        QUARANTINED,
        lambda it: f"machine/{it['machine_id']}",
        none="there are none",
    )


@machine.command("lift")
@command
async def lift(
    call: Call,
    machine_id: Annotated[
        str, typer.Argument(metavar="ID", help="The machine's id, as MAAS has it.")
    ],
) -> None:
    """Let a machine be taken again: how it failed is forgotten."""
    from protos.gen.ops.health_pb2 import LiftRequest

    if not machine_id:
        raise Complaint(
            "the machine's id is empty",
            Code.USAGE,
            do="windlass machine quarantined shows the machines that are not taken",
        )
    await call.change(health(call).Lift, LiftRequest(system_id=machine_id))
    call.page.say(f"machine {machine_id} may be taken again")
    if call.page.for_programs:
        call.page.one({"machine_id": machine_id}, f"machine/{machine_id}", lambda: "")


def health(call: Call) -> "health_pb2_grpc.HealthStub":
    from protos.gen.ops.health_pb2_grpc import HealthStub

    return HealthStub(call.channel)
