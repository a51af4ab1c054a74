"""Inside an instance: what it writes, and commands that are run beside it."""

import sys
from typing import Annotated

import typer

from cli.calling import READ_SECONDS, Call, command
from cli.complaints import Code, Complaint
from cli.pods import INSTANCE, Follow, Since, show_log

INCARNATION = "windlass/incarnation"
SLACK_SECONDS = 10.0

Id = Annotated[str, typer.Argument(metavar="ID", help="The instance's id.")]


def belongs_to(instances: typer.Typer) -> None:
    """Add these commands to the group of instances."""
    instances.command("logs")(logs)
    instances.command("exec")(execute)


@command
async def logs(
    call: Call,
    id: Id,
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="Only the last so many.")] = 0,
    since: Since = "",
    times: Annotated[bool, typer.Option("--times", help="Tell when a line was written.")] = False,
) -> None:
    """Show what an instance wrote.

    That is what its latest copy wrote; `windlass pod list --instance` shows the earlier ones."""
    pod = await _latest(call, id)
    await show_log(call, pod, follow=follow, lines=lines, since=since, times=times)


@command
async def execute(
    call: Call,
    id: Id,
    words: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Which no shell reads.")],
    seconds: Annotated[float, typer.Option("--seconds", help="How long it may take.")] = 30.0,
) -> int:
    """Run a command beside an instance, on its node.

    The control plane has the node do it. Exits as the command does."""
    from protos.gen.ops.instances_pb2 import ExecInstanceRequest
    from protos.gen.ops.instances_pb2_grpc import InstancesStub

    asked = ExecInstanceRequest(id=id, command=words, timeout_seconds=seconds)
    code = int(Code.OK)
    stub: InstancesStub = InstancesStub(call.channel)
    async for output in stub.Exec(asked, timeout=seconds + SLACK_SECONDS):
        sys.stdout.write(output.stdout.decode(errors="replace"))
        sys.stderr.write(output.stderr.decode(errors="replace"))
        code = output.exit_code
    return code


async def _latest(call: Call, id: str) -> str:
    """The pod of its newest copy."""
    from protos.gen.rkt import api_pb2 as pb
    from protos.gen.rkt.api_pb2_grpc import PublicAPIStub

    notes = [pb.KeyValue(Key=INSTANCE, value=id)]
    asked = pb.ListPodsRequest(filters=[pb.PodFilter(annotations=notes)])
    reply = await PublicAPIStub(call.channel).ListPods(asked, timeout=READ_SECONDS)
    found = {
        int({each.Key: each.value for each in pod.annotations}.get(INCARNATION, "0")): pod.id
        for pod in reply.pods
    }
    if not found:
        raise Complaint(f"no node has told of instance {id}", do=f"windlass instance why {id}")
    return str(found[max(found)])
