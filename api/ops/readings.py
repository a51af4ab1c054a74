"""Between what the domain says of health and the messages of the contract."""

from collections.abc import Sequence

from api.errors import wrong
from api.ops import states
from api.ops.convert import moment
from domain.cluster import Cluster
from domain.quarantine import Quarantined
from domain.repairs import Policy
from domain.why import Reading
from protos.gen.ops import health_pb2 as pb

NAME_LENGTH = 253
"""Longer than any name can be, and short enough to look for."""

NODES_MOST = 1000


def named(field: str, name: str) -> str:
    """A name to look something up by. Whether there is such a thing is not asked here."""
    if not name:
        raise wrong(field, "is required")
    if len(name) > NAME_LENGTH or not name.isprintable():
        raise wrong(field, f"{name[:64]!r} cannot be a name")
    return name


def nodes(names: Sequence[str]) -> list[str]:
    """The nodes that are named, each once."""
    if len(names) > NODES_MOST:
        raise wrong("nodes", f"{len(names)} nodes, at most {NODES_MOST}")
    return [named(f"nodes[{index}]", name) for index, name in enumerate(dict.fromkeys(names))]


def policy(number: int) -> Policy:
    found = next((each for each, said in states.POLICIES.items() if said == number), None)
    if found is None:
        raise wrong("policy", f"{number} is none of {', '.join(states.POLICY_NAMES)}")
    return found


def health_policy(cluster: str, policy: Policy) -> pb.HealthPolicy:
    return pb.HealthPolicy(cluster=cluster, policy=states.POLICIES[policy])


def why(cluster: Cluster, reading: Reading) -> pb.WhyResponse:
    return pb.WhyResponse(
        cluster=cluster.name,
        phase=cluster.phase,
        causes=[
            pb.Cause(about=each.about, says=each.says, since=moment(each.since), depth=each.depth)
            for each in reading.causes
        ],
        advice=[pb.Advice(command=each.command, because=each.because) for each in reading.advice],
    )


def quarantined(machine: Quarantined) -> pb.QuarantinedMachine:
    return pb.QuarantinedMachine(
        system_id=machine.system_id,
        hostname=machine.hostname,
        failures=machine.failures,
        last=moment(machine.last),
        until=moment(machine.until),
        why=machine.why,
        cluster=machine.cluster,
    )
