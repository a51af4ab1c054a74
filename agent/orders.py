"""What an agent is told to run, and where that stands."""

from enum import StrEnum

from pydantic import Field

from agent.runtime import PortMap, Spec
from domain.frozen import Frozen
from domain.placement import Amounts
from domain.pod import INCARNATION, INSTANCE, NODE, TENANT, WORKLOAD, Image, Pairs, PodState, pod_id
from domain.probing import Probe


class State(StrEnum):
    """In the words of agent.Status; STOPPED is ours."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    DESTROYING = "DESTROYING"
    TERMINATED = "TERMINATED"
    CRASHED = "CRASHED"
    FAILED = "FAILED"


FINAL = frozenset({State.TERMINATED, State.CRASHED, State.FAILED})
"""Nothing follows on these, but that what is left is cleared away."""


class Order(Frozen):
    """An instance that is to run here, in one of its incarnations."""

    instance: str
    incarnation: int = 0
    tenant: str = ""
    workload: str = ""
    name: str = ""
    uri: str
    environment: Pairs = ()
    command: tuple[str, ...] = ()
    limits: Amounts = Amounts()
    ports: tuple[PortMap, ...] = ()
    ip: str = ""
    health: Probe | None = None
    credentials: str = Field("", repr=False)
    """What opens the registry of its image; forgotten once the image is here."""
    plain: bool = False
    """Whether whoever ordered it knows no incarnations, and takes every end for the same."""

    @property
    def pod(self) -> str:
        return pod_id(self.tenant, self.instance, self.incarnation)

    def spec(self) -> Spec:
        shared = self.model_dump(
            include={"instance", "uri", "environment", "command", "limits", "ports", "ip"}
        )
        probe = self.health.command if self.health else ()
        return Spec(pod=self.pod, name=self.name or self.instance, probe=probe, **shared)

    def annotations(self, node: str) -> Pairs:
        told = {
            INSTANCE: self.instance,
            INCARNATION: str(self.incarnation),
            NODE: node,
            TENANT: self.tenant,
            WORKLOAD: self.workload,
        }
        return tuple((name, value) for name, value in told.items() if value)


class Status(Frozen):
    """Where an instance stands, as whoever ordered it is told."""

    state: State
    description: str = ""
    usage: Amounts | None = None


class Record(Frozen):
    """An order, and what became of it: what the agent has to know after a restart."""

    order: Order
    status: Status = Status(state=State.STARTING)
    pod_state: PodState = PodState.PREPARING
    image: Image | None = None
    exit_code: int = 0
    pid: int = -1
    created_ns: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    ip: str = ""
    network: str = ""
    ports: tuple[PortMap, ...] = ()

    @property
    def instance(self) -> str:
        return self.order.instance

    @property
    def pod(self) -> str:
        return self.order.pod
