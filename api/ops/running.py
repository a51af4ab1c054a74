"""Nodes and instances as windlass.v1 tells of them, and orders for instances as the domain reads
them."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from domain.instance import (
    InstanceEvent,
    InstanceSpec,
    InstanceView,
    Port,
    Restart,
    check,
    no_limit,
)
from domain.node import ADDRESSLESS, NodeView
from domain.placement import Amounts, Demands, Policy, Verdict
from domain.plight import Reading
from domain.probing import Probe
from protos.gen.ops import health_pb2, nodes_pb2
from protos.gen.ops import instances_pb2 as pb

RESTARTS: dict[pb.Restart.ValueType, Restart] = {
    pb.RESTART_NEVER: Restart.NEVER,
    pb.RESTART_ON_FAILURE: Restart.ON_FAILURE,
    pb.RESTART_ALWAYS: Restart.ALWAYS,
}


def order(request: pb.InstanceOrder, usual: Restart, *, keeps: bool) -> InstanceSpec:
    """What is asked for, with everything that is wrong with it told at once."""
    if not request.HasField("limit"):
        raise no_limit(request.id)
    return check(
        InstanceSpec(
            id=request.id,
            name=request.name,
            uri=request.uri,
            environment=tuple(request.environment),
            limit=Amounts(
                cpu=request.limit.cpu, memory=request.limit.memory, disk=request.limit.disk
            ),
            ports=tuple(Port(source=it.source, destination=it.destination) for it in request.ports),
            ip=request.ip,
            command=tuple(request.command),
            restart=RESTARTS.get(request.restart, usual),
            probe=_probe(request.probe) if request.HasField("probe") else None,
            demands=Demands(
                pool=request.pool,
                constraints=tuple(request.constraints),
                affinity=tuple(request.affinity),
                workload=request.workload,
                spread_by=request.spread_by,
                most_per_node=request.most_per_node,
            ),
            policy=Policy.BINPACK if request.binpack else Policy.SPREAD,
            keeps=keeps,
        )
    )


def _probe(request: pb.Probing) -> Probe:
    usual = Probe()
    return Probe(
        command=tuple(request.command),
        http=request.http,
        tcp=request.tcp,
        interval_seconds=request.interval_seconds or usual.interval_seconds,
        timeout_seconds=request.timeout_seconds or usual.timeout_seconds,
        retries=request.retries or usual.retries,
        start_seconds=request.start_seconds or usual.start_seconds,
    )


def instance(view: InstanceView, agent: str = "", runtime: str = "") -> pb.InstanceView:
    """An address is shown where the runtime of its node gives it one."""
    return pb.InstanceView(
        id=view.id,
        uid=view.uid,
        status=view.phase.upper(),
        says=view.says,
        node=view.node,
        agent=agent,
        incarnation=view.incarnation,
        restarts=view.restarts,
        uri=view.spec.uri,
        limit=_room(view.spec.limit),
        used=_room(view.used),
        ip="" if runtime in ADDRESSLESS else view.ip,
        ports=[pb.Published(source=it.source, destination=it.destination) for it in view.ports],
        created=_stamp(view.created),
        changed=_stamp(view.changed),
        ended=_stamp(view.ended),
        last_event=view.last_event,
        owner=view.spec.owner,
    )


def event(line: InstanceEvent) -> pb.InstanceEvent:
    return pb.InstanceEvent(
        number=line.number,
        time=_stamp(line.time),
        status=line.phase.upper(),
        says=line.says,
        node=line.node,
        incarnation=line.incarnation,
        last=line.last,
    )


def plan(verdicts: list[Verdict]) -> pb.PlanInstanceResponse:
    best = next((each.node for each in verdicts if not each.shortfalls), "")
    return pb.PlanInstanceResponse(
        node=best,
        nodes=[pb.Prospect(node=each.node, shortfalls=each.shortfalls) for each in verdicts],
    )


def why(reading: Reading) -> pb.WhyInstanceResponse:
    return pb.WhyInstanceResponse(
        causes=[
            health_pb2.Cause(
                about=each.about, says=each.says, since=_stamp(each.since), depth=each.depth
            )
            for each in reading.causes
        ],
        advice=[
            health_pb2.Advice(command=each.command, because=each.because) for each in reading.advice
        ],
    )


def node(view: NodeView) -> nodes_pb2.FleetNode:
    return nodes_pb2.FleetNode(
        id=view.id,
        phase=view.phase,
        says=view.says,
        pool=view.pool,
        address=view.address,
        subnet=view.subnet,
        runtime=view.runtime,
        labels=dict(view.labels),
        cordoned=view.cordoned,
        draining=view.draining,
        suspect=view.suspect,
        heard=_stamp(view.heard),
        limit=_room(view.limit),
        reserved=_room(view.reserved),
        used=_room(view.used),
        instances=view.instances,
    )


def _room(of: Amounts) -> nodes_pb2.Room:
    return nodes_pb2.Room(cpu=of.cpu, memory=of.memory, disk=of.disk)


def _stamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
