"""What is asked of the agents on nodes. Each promise says what asking twice means.

An agent knows a copy by its instance's id and its incarnation. Whoever asks for a newer one
finds the older copies gone; whoever asks for an older one is refused. `Unavailable` is worth
another try, every other DomainError is final."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from pydantic import Field

from domain.frozen import Frozen
from domain.instance import InstanceSpec, Port, Report


class Order(Frozen):
    """A copy of an instance, and the agent that is asked."""

    instance: str
    tenant: str
    spec: InstanceSpec
    node: str
    address: str
    incarnation: int
    turn: int
    ip: str = ""
    ports: tuple[Port, ...] = ()
    """With every source said."""
    taken_up: bool = False
    """Whether its node has said already that it has it."""


class Copy(Frozen):
    """One that an agent has."""

    instance: str
    incarnation: int
    """0: whoever ordered it knows of none."""


class Output(Frozen):
    """What became of a command."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


STOPPED = "stopped"
"""What an agent says beside STOPPING of what it has stopped and keeps, to be started again: the
original contract has no state for that."""

STALE = "STALE_INCARNATION"
"""Why an agent refuses whoever asks for an older copy than it has."""

ENDED = "INSTANCE_ENDED"
"""Why an agent refuses to start what it found dead when it came back: it was stopped by then, but
nothing is left that could run again."""

SECRET = "windlass-agent-secret"  # noqa: S105 (the name of metadata)
"""The metadata in which an agent tells its secret, and proves with it later who it is."""


class Trust(Frozen):
    """What the agent of a node told when it registered."""

    secret: str = Field("", repr=False)
    """It has the agent take our calls. Empty: it asks nobody."""
    certificate: str = ""
    """PEM, by which we know it. Empty: what is said to it is not encrypted."""

    def kept(self) -> bytes:
        """As it lies in the vault; without a certificate it is the secret and nothing else."""
        return f"{self.secret}\n{self.certificate}".rstrip("\n").encode()

    @classmethod
    def opened(cls, kept: bytes) -> "Trust":
        secret, _, certificate = kept.decode().partition("\n")
        return cls(secret=secret, certificate=certificate)


def trust_of(node: str) -> str:
    """Under which reference that lies. None there is an original agent."""
    return f"node/{node}/agent"


def registrar_of(node: str) -> str:
    """Under which reference it lies who registered a node."""
    return f"node/{node}/registrar"


def environment_of(uid: str) -> str:
    """Under which reference the environment of an instance lies, until it is over."""
    return f"instance/{uid}/environment"


class Agents(Protocol):
    """The agents on nodes, each asked at its own address."""

    async def reach(self, node: str, address: str, certificate: str = "") -> None:
        """Make sure that an agent answers there; with a certificate, the one that holds its key.
        Unavailable if none does."""

    def run(self, order: Order) -> AsyncGenerator[Report, None]:
        """Have the copy made, unless it is there, and tell what becomes of it until it has ended.
        Hanging up changes nothing about it. Asking again goes on with how it stands then."""

    async def start(self, order: Order) -> None:
        """Start what was kept when it was stopped. What runs is left alone; NotFound if nothing was
        kept."""

    async def stop(self, order: Order) -> bool:
        """End it and keep what it ran in. Done once it has ended; what has ended is left alone.
        False: nothing was kept, since this agent cannot."""

    async def destroy(self, order: Order) -> None:
        """End it and keep nothing. Done once nothing is left; what is not there is as good."""

    async def held(self, node: str, address: str) -> Sequence[Copy]:
        """All that is there, whether it runs or not. Unsupported if its agent cannot tell."""

    async def drop(self, node: str, address: str, copy: Copy) -> None:
        """As `destroy`, of one that nobody ordered as far as we know."""

    async def execute(
        self, node: str, address: str, instance: str, command: Sequence[str], seconds: float
    ) -> Output:
        """Run a command beside an instance, for so long at most; 0 is as long as the agent has it.
        Asking twice runs it twice."""
