"""Messages of the scheduler contract as the domain's models, and back."""

import json
from collections.abc import Mapping

from api.kudo import states
from domain.errors import Invalid, Violation
from domain.instance import (
    InstanceEvent,
    InstanceSpec,
    InstanceView,
    Phase,
    Port,
    Restart,
    check,
    no_limit,
)
from domain.metadata import COMMAND, OWNER, POOL, RESTART, WORKLOAD
from domain.naming import is_label_key, is_label_value
from domain.node import Registered
from domain.placement import Amounts, Demands
from protos.gen.kudo import scheduler_pb2 as pb

MOST_LABELS = 64


def instance(
    request: pb.Instance, restart: Restart, beside: Mapping[str, str], *, keeps: bool
) -> InstanceSpec:
    """What is asked for; what nobody says is as the operator has it."""
    if not (request.HasField("resource") and request.resource.HasField("limit")):
        raise no_limit(request.id)
    if request.type not in pb.Type.values():
        violation = Violation(field="type", description=f"{request.type} is no type")
        raise Invalid(
            "type: has to be CONTAINER",
            subject=request.id,
            reason="INSTANCE_INVALID",
            violations=[violation],
        )
    return check(
        InstanceSpec(
            id=request.id,
            name=request.name,
            uri=request.uri,
            environment=tuple(request.environnement),
            limit=amounts(request.resource.limit),
            ports=tuple(
                Port(source=port.source, destination=port.destination) for port in request.ports
            ),
            ip=request.ip,
            restart=_restart(beside[RESTART]) if RESTART in beside else restart,
            demands=Demands(pool=beside.get(POOL, ""), workload=beside.get(WORKLOAD, "")),
            command=_command(beside.get(COMMAND, "[]")),
            keeps=keeps,
            owner=beside.get(OWNER, ""),
        )
    )


def _restart(word: str) -> Restart:
    if word not in set(Restart):
        raise _beside(RESTART, f"one of {', '.join(Restart)}")
    return Restart(word)


def _command(text: str) -> tuple[str, ...]:
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _beside(COMMAND, "a list of words, in JSON")
    return tuple(words)


def _beside(name: str, wanted: str) -> Invalid:
    return Invalid(
        f"{name} has to be {wanted}",
        subject=name,
        reason="INSTANCE_INVALID",
        violations=[Violation(field=name, description=f"has to be {wanted}")],
    )


def amounts(summary: pb.ResourceSummary) -> Amounts:
    return Amounts(cpu=summary.cpu, memory=summary.memory, disk=summary.disk)


def usage(resource: pb.Resource) -> Amounts:
    """What a node uses. Old agents send bytes, which arrive cut off and may be negative: it is told
    to people and decides nothing, so that is no error."""
    used = resource.usage
    return Amounts(cpu=max(used.cpu, 0), memory=max(used.memory, 0), disk=max(used.disk, 0))


def status(event: InstanceEvent, view: InstanceView) -> pb.InstanceStatus:
    """A line of an instance's journal. What it may take, and takes, is told while it runs."""
    return pb.InstanceStatus(
        id=view.id,
        status=states.STATUSES[event.phase],
        statusDescription=event.says,
        resource=_resource(view) if event.phase is Phase.RUNNING else None,
    )


def sample(view: InstanceView) -> pb.InstanceStatus:
    """That an instance still runs, with what it uses now."""
    return pb.InstanceStatus(id=view.id, status=pb.RUNNING, resource=_resource(view))


def _resource(view: InstanceView) -> pb.Resource:
    return pb.Resource(limit=_summary(view.spec.limit), usage=_summary(view.used))


def _summary(of: Amounts) -> pb.ResourceSummary:
    return pb.ResourceSummary(cpu=of.cpu, memory=of.memory, disk=of.disk)


def registered(reply: Registered) -> pb.NodeRegisterResponse:
    return pb.NodeRegisterResponse(
        code=states.CODES[reply.outcome], description=reply.says, subnet=reply.subnet
    )


def labels(text: str) -> Mapping[str, str]:
    """`k=v,k=v` as labels. What cannot be one is left out: it is no reason to turn a node away."""
    found: dict[str, str] = {}
    for pair in text.split(",")[:MOST_LABELS]:
        key, _, value = pair.strip().partition("=")
        if is_label_key(key) and is_label_value(value):
            found[key] = value
    return found
