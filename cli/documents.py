"""What programs read: the keys of every document, written out in one place.

Keys are promised. New ones may come; none changes its meaning or goes. Words of an enum are those
of the contract, times are RFC 3339 in UTC, spans are seconds."""

from typing import TYPE_CHECKING

from cli.printing import Document

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from protos.gen.kaas import api_pb2
    from protos.gen.ops import clusters_pb2, health_pb2, instances_pb2, operations_pb2


def cluster(item: "api_pb2.ClusterItem") -> Document:
    """A cluster as a list shows it."""
    from protos.gen.kaas.api_pb2 import ClusterStatus

    return {
        "name": item.name,
        "status": ClusterStatus.Name(item.status),
        "status_message": item.status_message,
    }


def cluster_detail(item: "api_pb2.ClusterDetailItem") -> Document:
    """A cluster by itself. The kubeconfig is a secret and has a command of its own."""
    from protos.gen.kaas.api_pb2 import ClusterStatus

    return {
        "name": item.name,
        "status": ClusterStatus.Name(item.status),
        "status_message": item.status_message,
        "kubeconfig_ready": bool(item.kubeconfig),
    }


def node(machine: "api_pb2.GetClusterNodesStatusReply.MachineStatus", name: str = "") -> Document:
    """A node with its machine; the name is the one that Kubernetes has, as far as it is known."""
    return {
        "name": name,
        "hostname": machine.maasHostname,
        "kubernetes_status": machine.k8sNodeStatus,
        "kubernetes_version": machine.k8sVersion,
        "machine_status": machine.maasNodeStatus,
        "machine_id": machine.maasSystemId,
        "address": machine.maasIPAddr,
    }


def cluster_view(view: "clusters_pb2.ClusterView") -> Document:
    """A cluster and its nodes as they were seen."""
    from protos.gen.ops.clusters_pb2 import ClusterPhase

    return {
        "name": view.name,
        "phase": ClusterPhase.Name(view.phase).removeprefix("CLUSTER_"),
        "message": view.message,
        "version": view.version,
        "operation": view.operation.removeprefix("operations/"),
        "confirmed": moment(view.confirmed) if view.HasField("confirmed") else None,
        "nodes": [node_view(each) for each in view.nodes],
    }


def node_view(node: "clusters_pb2.NodeView") -> Document:
    return {
        "name": node.name,
        "pool": node.pool,
        "phase": node.phase,
        "reason": node.reason,
        "since": moment(node.since) if node.HasField("since") else None,
        "schedulable": node.schedulable,
        "kubelet": node.kubelet,
        "machine_id": node.machine_id,
        "hostname": node.hostname,
        "address": node.address,
        "machine_status": node.machine_status,
        "power": node.power,
    }


def why(it: "health_pb2.WhyResponse") -> Document:
    return {"name": it.cluster, "phase": it.phase, **reading(it)}


def reading(it: "health_pb2.WhyResponse | instances_pb2.WhyInstanceResponse") -> Document:
    """Causes in the order in which they are told, and what to do now."""
    return {
        "causes": [
            {
                "about": each.about,
                "says": each.says,
                "since": moment(each.since) if each.HasField("since") else None,
                "depth": each.depth,
            }
            for each in it.causes
        ],
        "advice": [{"command": each.command, "because": each.because} for each in it.advice],
    }


def health_policy(it: "health_pb2.HealthPolicy") -> Document:
    from protos.gen.ops.health_pb2 import Policy

    return {"name": it.cluster, "policy": Policy.Name(it.policy)}


def quarantined(it: "health_pb2.QuarantinedMachine") -> Document:
    return {
        "machine_id": it.system_id,
        "hostname": it.hostname,
        "failures": it.failures,
        "last": moment(it.last) if it.HasField("last") else None,
        "until": moment(it.until) if it.HasField("until") else None,
        "why": it.why,
        "cluster": it.cluster,
    }


def operation(it: "operations_pb2.Operation", *, steps: bool = True) -> Document:
    """An operation. Lists leave the steps out, as the server does."""
    from protos.gen.ops.operations_pb2 import Stage

    document: Document = {
        "id": it.name.removeprefix("operations/"),
        "name": it.name,
        "kind": it.kind,
        "subject": it.subject,
        "stage": Stage.Name(it.stage),
        "requester": it.requester,
        "request_id": it.request_id,
        "created": moment(it.created) if it.HasField("created") else None,
        "started": moment(it.started) if it.HasField("started") else None,
        "ended": moment(it.ended) if it.HasField("ended") else None,
        "percent": it.percent,
        "eta_seconds": it.eta.ToTimedelta().total_seconds() if it.HasField("eta") else None,
        "waiting_on": it.waiting_on,
        "cancel_requested": it.cancel_requested,
        "failure": failure(it.failure) if it.HasField("failure") else None,
        "last_event": it.last_event,
        "paused_by": it.paused_by,
        "gate": it.gate,
        "gate_until": moment(it.gate_until) if it.HasField("gate_until") else None,
        "left_behind": [left_behind(each) for each in it.left_behind],
    }
    if steps:
        document["steps"] = [step(each) for each in it.steps]
    return document


def step(it: "operations_pb2.Step") -> Document:
    from protos.gen.ops.operations_pb2 import StepState

    return {
        "verb": it.verb,
        "subject": it.subject,
        "state": StepState.Name(it.state),
        "started": moment(it.started) if it.HasField("started") else None,
        "ended": moment(it.ended) if it.HasField("ended") else None,
        "attempts": it.attempts,
        "note": it.note,
        "undo": it.undo,
        "turn": it.turn,
    }


def plan(it: "operations_pb2.PlanResponse") -> Document:
    """What would be done; no kind, if nothing would."""
    return {
        "kind": it.kind or None,
        "subject": it.subject or None,
        "duration_seconds": (
            it.duration.ToTimedelta().total_seconds() if it.HasField("duration") else None
        ),
        "machines": [machine(each) for each in it.machines],
        "steps": [
            {"verb": each.verb, "subject": each.subject, "turn": each.turn} for each in it.steps
        ],
        "gates": [{"name": each.name, "before": each.before} for each in it.gates],
        "warnings": list(it.warnings),
    }


def machine(it: "operations_pb2.PlannedMachine") -> Document:
    from protos.gen.ops.operations_pb2 import MachineFate

    return {
        "node": it.node,
        "pool": it.pool,
        "fate": MachineFate.Name(it.fate),
        "instance_type": it.instance_type,
        "machine_id": it.system_id,
        "hostname": it.hostname,
    }


def left_behind(it: "operations_pb2.LeftBehind") -> Document:
    return {
        "node": it.node,
        "machine_id": it.system_id,
        "hostname": it.hostname,
        "agent_name": it.agent_name,
        "why": it.why,
    }


def failure(it: "operations_pb2.Failure") -> Document:
    """Why it failed, with the name of the gRPC status a caller would have been given."""
    import grpc

    names = {code.value[0]: code.name for code in grpc.StatusCode}
    return {"code": names.get(it.code, "UNKNOWN"), "kind": it.kind, "message": it.message}


def event(it: "operations_pb2.OperationEvent") -> Document:
    return {
        "number": it.number,
        "time": moment(it.time),
        "note": it.note,
        "step": step(it.step) if it.HasField("step") else None,
        "operation": operation(it.operation, steps=False),
        "last": it.last,
    }


def moment(stamp: "Timestamp") -> str:
    return stamp.ToJsonString()


def on_the_wall(time: str | None) -> str:
    """A time of a document as a clock on the wall shows it."""
    from datetime import datetime

    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}" if time else ""
