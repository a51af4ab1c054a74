"""What a command would do, told without doing it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli import documents
from cli.calling import CHANGE_SECONDS, Call
from cli.printing import numbered, tame

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from rich.console import RenderableType

    from protos.gen.ops import operations_pb2

FATES = {"TAKEN": "to be made a node", "RETURNED": "to be given back", "KEPT": "to be worked on"}


async def foreseen(
    call: Call,
    method: str,
    request: "Message",
    wishes: Sequence[tuple[str, str]] = (),
    *,
    service: str = "cnct.kaas.api.Cluster",
) -> None:
    """Have the server try a method out. What it refuses is refused."""
    from protos.gen.ops.operations_pb2 import PlanRequest
    from protos.gen.ops.operations_pb2_grpc import OperationsStub

    asked = PlanRequest(method=f"{service}/{method}", request=request.SerializeToString())
    stub = OperationsStub(call.channel)
    plan = await stub.Plan(asked, timeout=CHANGE_SECONDS, metadata=tuple(wishes))
    call.page.one(documents.plan(plan), plan.kind or "nothing", lambda: _drawn(plan))


def _drawn(plan: "operations_pb2.PlanResponse") -> "RenderableType":
    from rich.text import Text
    from rich.tree import Tree

    from cli.view import duration
    from protos.gen.ops.operations_pb2 import MachineFate

    if not plan.kind:
        return Text("nothing would be done: all is as it is asked for")
    took = duration(plan.duration.ToTimedelta()) if plan.HasField("duration") else "nobody knows"
    steps, machines = numbered(len(plan.steps), "step"), numbered(len(plan.machines), "machine")
    counted = f"{steps}, {machines}; how long: {took}"
    tree = Tree(
        Text.assemble((tame(f"{plan.kind} {plan.subject}"), "bold"), "  ", counted),
        guide_style="dim",
    )
    for warning in plan.warnings:
        tree.add(Text(tame(f"warning: {warning}"), style="yellow"))
    branch = tree.add(Text("machines"))
    for each in plan.machines:
        fate = FATES.get(MachineFate.Name(each.fate), "")
        metal = f"{each.hostname} ({each.system_id})" if each.system_id else "none yet"
        kind = f" of type {each.instance_type}" if each.instance_type else ""
        branch.add(Text(tame(f"{each.node}{kind}: {metal}, {fate}")))
    verbs_of: dict[str, list[str]] = {}
    for step in plan.steps:
        turn = f" #{step.turn}" if step.turn > 1 else ""
        verbs_of.setdefault(step.subject, []).append(f"{step.verb}{turn}")
    order = tree.add(Text("steps"))
    for subject, verbs in verbs_of.items():
        order.add(Text.assemble((tame(subject), "bold"), tame(f"  {', '.join(verbs)}")))
    if plan.gates:
        waits = "waits for approval, which is not counted and lapses after kaas.approval_seconds"
        gates = tree.add(Text(waits))
        for gate in plan.gates:
            gates.add(Text(tame(f"{gate.name}, before {gate.before}")))
    tree.add(Text("nothing was changed", style="dim"))
    return tree
