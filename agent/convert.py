"""Between the messages of `agent` and `windlass.node.v1` and what they mean."""

import json
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from agent.orders import Order, Record, State, Status
from agent.runtime import PortMap
from domain.errors import Invalid
from domain.metadata import COMMAND, HEALTH, INCARNATION, KEEP, TENANT, WORKLOAD
from domain.placement import Amounts
from domain.pod import Pairs
from domain.probing import Probe
from domain.registries import CREDENTIALS
from protos.gen.agent import instance_pb2 as agent_pb2
from protos.gen.agent import node_pb2 as pb

WORDS = {
    State.STARTING: agent_pb2.STARTING,
    State.RUNNING: agent_pb2.RUNNING,
    State.STOPPING: agent_pb2.STOPPING,
    State.STOPPED: agent_pb2.STOPPING,
    State.DESTROYING: agent_pb2.DESTROYING,
    State.TERMINATED: agent_pb2.TERMINATED,
    State.CRASHED: agent_pb2.CRASHED,
    State.FAILED: agent_pb2.FAILED,
}
"""The first contract does not know STOPPED: it is STOPPING, and described as `stopped`."""

Metadata = Iterable[tuple[str, str | bytes]]


def order(instance: agent_pb2.Instance, metadata: Metadata) -> Order:
    if not instance.id or not instance.uri:
        raise _invalid("an instance needs an id and a uri")
    told = {name: str(value) for name, value in metadata}
    limit = instance.resource.limit
    try:
        return Order(
            instance=instance.id,
            incarnation=incarnation(metadata) or 0,
            plain=INCARNATION not in told,
            tenant=told.get(TENANT, ""),
            workload=told.get(WORKLOAD, ""),
            name=instance.name,
            uri=instance.uri,
            environment=environment(instance.environment),
            command=tuple(_json(told.get(COMMAND, "[]"))),
            limits=Amounts(cpu=limit.cpu, memory=limit.memory, disk=limit.disk),
            ports=tuple(
                PortMap(source=port.source, destination=port.destination) for port in instance.ports
            ),
            ip=instance.ip,
            credentials=told.get(CREDENTIALS, ""),
            health=Probe.model_validate(_json(told[HEALTH])) if told.get(HEALTH) else None,
        )
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        raise _invalid(f"these are not understood: {wrong}") from error


def incarnation(metadata: Metadata) -> int | None:
    """None: whoever asks knows of none."""
    for name, value in metadata:
        if name == INCARNATION:
            if not str(value).isdigit():
                raise _invalid(f"{INCARNATION} is no number")
            return int(str(value))
    return None


def keeps(metadata: Metadata) -> bool:
    return (KEEP, "true") in metadata


def environment(told: Iterable[str]) -> Pairs:
    """The last one of a name counts."""
    found: dict[str, str] = {}
    for each in told:
        name, sign, value = each.partition("=")
        if not name or not sign or "\0" in each:
            raise _invalid(f"{each[:64]!r} is not NAME=VALUE")
        found[name] = value
    return tuple(found.items())


def status(instance: str, one: Status, limits: Amounts) -> agent_pb2.InstanceStatus:
    """Limits and usage go with RUNNING alone."""
    told = agent_pb2.InstanceStatus(
        id=instance, status=WORDS[one.state], description=one.description
    )
    if one.state is State.RUNNING:
        told.resource.limit.CopyFrom(summary(limits))
        told.resource.usage.CopyFrom(summary(one.usage or Amounts()))
    return told


def summary(amounts: Amounts) -> agent_pb2.ResourceSummary:
    return agent_pb2.ResourceSummary(cpu=amounts.cpu, memory=amounts.memory, disk=amounts.disk)


def held(record: Record) -> pb.Held:
    return pb.Held(
        copy=copy(record),
        state=record.status.state,
        description=record.status.description,
        exit_code=record.exit_code,
        pid=record.pid,
        pod=record.pod,
        ports=[
            pb.OpenPort(source=port.source, destination=port.destination) for port in record.ports
        ],
        ip=record.ip,
    )


def copy(record: Record) -> pb.Copy:
    return pb.Copy(instance=record.instance, incarnation=record.order.incarnation)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise _invalid(f"{text[:64]!r} is no JSON") from error


def _invalid(what: str) -> Invalid:
    return Invalid(f"the order cannot be carried out: {what}", reason="ORDER_INVALID")
