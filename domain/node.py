"""Nodes that instances run on: where one stands, what it may say of itself, and its addresses."""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv4Network, ip_address, ip_network

from domain.errors import DomainError, Invalid
from domain.frozen import Frozen
from domain.placement import Amounts


class NodePhase(StrEnum):
    """Where a node stands.

    STARTING  registered; it has not said yet that it runs, or with how much
    RUNNING   it says so, and is heard of
    STOPPING  it is going away by itself: nothing new is placed there
    FAILED    it says that it does not work: nothing new is placed there
    LOST      it has not been heard of for longer than its lease
    GONE      it has left, or was forgotten
    """

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"
    LOST = "lost"
    GONE = "gone"


AWAY = frozenset({NodePhase.LOST, NodePhase.GONE})
"""What ran there is run elsewhere, or is over."""

LIVING = frozenset(NodePhase) - AWAY


class Said(StrEnum):
    """What a node says of itself, in the words of the contract."""

    RUNNING = "RUNNING"
    STARTING = "STARTING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    DESTROYING = "DESTROYING"
    TERMINATED = "TERMINATED"
    FAILED = "FAILED"
    SCHEDULING = "SCHEDULING"
    SCHEDULED = "SCHEDULED"


HEARD: dict[Said, NodePhase] = {
    Said.RUNNING: NodePhase.RUNNING,
    Said.STARTING: NodePhase.STARTING,
    Said.SCHEDULING: NodePhase.STARTING,
    Said.SCHEDULED: NodePhase.STARTING,
    Said.STOPPING: NodePhase.STOPPING,
    Said.DESTROYING: NodePhase.STOPPING,
    Said.STOPPED: NodePhase.GONE,
    Said.TERMINATED: NodePhase.GONE,
    Said.FAILED: NodePhase.FAILED,
}
"""What a node is once it has said so."""


class Welcome(StrEnum):
    """How a registration ends."""

    WELCOME = "welcome"
    FAILED = "failed"
    BAD_CERTIFICATE = "bad certificate"
    NO_SUBNET = "no subnet left"
    IN_USE = "id in use"


class Registered(Frozen):
    """What a node is told that registers."""

    outcome: Welcome
    says: str
    subnet: str = ""


class Candidate(Frozen):
    """A node that registers."""

    id: str
    fingerprint: str = ""
    """Of its key, or empty: then its id is all that it has."""
    address: str
    """Where its agent is asked."""
    pool: str = "default"
    labels: Mapping[str, str] = {}
    runtime: str = ""
    registrar: str = ""
    """Among whose nodes it is counted. Empty: it is not."""


class NodeView(Frozen):
    """A node as it stands."""

    id: str
    phase: NodePhase
    says: str = ""
    pool: str
    address: str
    subnet: str
    runtime: str = ""
    labels: Mapping[str, str] = {}
    cordoned: bool = False
    draining: bool = False
    suspect: bool = False
    """Whether it has missed several beats, and may be lost soon."""
    heard: datetime
    limit: Amounts = Amounts()
    reserved: Amounts = Amounts()
    used: Amounts = Amounts()
    instances: int = 0


ADDRESSLESS = frozenset({"process", "simulated"})
"""Runtimes whose instances have no address of their own: they are reached at their node's."""

PREFIX = 24
"""The bits of a node's network: .0 is the network, .1 the gateway, .254 the last instance."""

FIRST_HOST, LAST_HOST = 2, 254


def network(pool: str) -> IPv4Network:
    """The network that nodes get their subnets from, or Invalid."""
    try:
        found = ip_network(pool)
    except ValueError as error:
        raise _no_network(pool) from error
    if not isinstance(found, IPv4Network) or found.prefixlen > PREFIX:
        raise _no_network(pool)
    return found


def _no_network(pool: str) -> DomainError:
    return Invalid(
        f"{pool} is no IPv4 network that holds a /{PREFIX}",
        reason="SUBNET_POOL_INVALID",
        do="name one such as 10.64.0.0/12",
    )


def lowest_free(pool: IPv4Network, taken: Collection[str]) -> str | None:
    """The lowest subnet of the pool that nobody has, None if there is none."""
    for number in range(2 ** (PREFIX - pool.prefixlen)):
        subnet = f"{pool.network_address + number * 256}/{PREFIX}"
        if subnet not in taken:
            return subnet
    return None


def address_in(subnet: str, taken: Collection[str], wanted: str = "") -> str | None:
    """An address for an instance: the one that is wanted if it is in the subnet and free, else the
    lowest that is free; None if there is none."""
    if not subnet:
        return wanted
    first = ip_network(subnet).network_address
    if wanted:
        try:
            number = int(ip_address(wanted)) - int(first)
        except ValueError:
            return None
        return wanted if FIRST_HOST <= number <= LAST_HOST and wanted not in taken else None
    for number in range(FIRST_HOST, LAST_HOST + 1):
        address = str(first + number)
        if address not in taken:
            return address
    return None
