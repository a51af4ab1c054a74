"""Commands in the containers of apps at the edge."""

import json
import shlex
import sys
from typing import Any, NamedTuple

from cli.calling import READ_SECONDS, Call
from cli.complaints import Code, Complaint

METAVAR = "DEVELOPER/APP/VERSION/OPERATOR/CLOUDLET[/CLUSTER]"
PARTS = range(5, 8)
"""How many a name may have. Behind the cluster's stands whose that is, as in `windlass appinst`."""

CALL_SECONDS = 60.0


async def execute(call: Call, name: str, words: list[str], container: str) -> int:
    """Run a command, and write what it writes. Returns what it exits with."""
    from protos.gen.edge.exec_pb2 import ExecRequest
    from protos.gen.edge.exec_pb2_grpc import ExecApiStub

    instance = await find_instance(call, name)
    command = words[0] if len(words) == 1 else shlex.join(words)
    request = ExecRequest(app_inst_key=instance.key, command=command, container_id=container)
    reply = await call.ask(ExecApiStub(call.channel).RunCommand, request, seconds=CALL_SECONDS)
    answer = _read(reply.answer)
    sys.stdout.write(answer.stdout)
    sys.stderr.write(answer.stderr)
    if answer.cut:
        sys.stderr.write("windlass: it wrote more than is told: run something that writes less\n")
    return answer.code


async def find_instance(call: Call, name: str) -> Any:
    """The only instance that is meant."""
    from protos.gen.edge.app_inst_pb2 import AppInst
    from protos.gen.edge.app_inst_pb2_grpc import AppInstApiStub

    parts = name.split("/")
    if len(parts) not in PARTS:
        raise Complaint(f"{name!r} names no instance", Code.USAGE, do=f"write it {METAVAR}")
    parts += [""] * (max(PARTS) - len(parts))
    example = AppInst()
    app, inside = example.key.app_key, example.key.cluster_inst_key
    place = inside.cloudlet_key
    app.developer_key.name, app.name, app.version, *where = parts
    place.operator_key.name, place.name, inside.cluster_key.name, inside.developer = where
    shown = AppInstApiStub(call.channel).ShowAppInst(example, timeout=READ_SECONDS)
    found = [each async for each in shown]
    if len(found) == 1:
        return found[0]
    names = sorted(each.key.cluster_inst_key.cluster_key.name for each in found)
    if found:
        raise Complaint(
            f"{name} runs in several clusters: {', '.join(names)}",
            Code.USAGE,
            do="say in which, behind another slash",
        )
    raise Complaint(f"there is no {name}", Code.NOT_FOUND, do="look whether it is spelt so")


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str = ""
    cut: bool = False


def _read(answer: str) -> Answer:
    """What came of it, as resource managers of ours answer; the answer of another is shown as it
    is."""
    try:
        told = json.loads(answer)
        code, stdout = int(told["exit_code"]), str(told["stdout"])
    except (ValueError, TypeError, KeyError):
        return Answer(Code.OK, answer + "\n")
    return Answer(code, stdout, str(told.get("stderr", "")), bool(told.get("cut")))
