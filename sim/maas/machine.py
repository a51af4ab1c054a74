"""A machine as MAAS knows it: its states, and everything MAAS remembers of it."""

import hashlib
from enum import IntEnum

from pydantic import Field

from domain.frozen import Frozen
from sim.ledger import Record

USER = "windlass"
"""The one user of the region who has an API key. No administrator."""


class Status(IntEnum):
    """What a machine is doing. The numbers are the wire's; filters take the names in lower case."""

    NEW = 0
    COMMISSIONING = 1
    FAILED_COMMISSIONING = 2
    MISSING = 3
    READY = 4
    RESERVED = 5
    DEPLOYED = 6
    RETIRED = 7
    BROKEN = 8
    DEPLOYING = 9
    ALLOCATED = 10
    FAILED_DEPLOYMENT = 11
    RELEASING = 12
    FAILED_RELEASING = 13
    DISK_ERASING = 14
    FAILED_DISK_ERASING = 15
    RESCUE_MODE = 16
    ENTERING_RESCUE_MODE = 17
    FAILED_ENTERING_RESCUE_MODE = 18
    EXITING_RESCUE_MODE = 19
    FAILED_EXITING_RESCUE_MODE = 20
    TESTING = 21
    FAILED_TESTING = 22

    @property
    def said(self) -> str:
        """The status as MAAS shows it to people, word order included."""
        return _SAID_OTHERWISE.get(self) or self.name.replace("_", " ").capitalize()


_SAID_OTHERWISE = {
    Status.FAILED_RELEASING: "Releasing failed",
    Status.FAILED_ENTERING_RESCUE_MODE: "Failed to enter rescue mode",
    Status.FAILED_EXITING_RESCUE_MODE: "Failed to exit rescue mode",
}

LABELS = {status.name.lower(): status for status in Status}
"""The words by which the list is filtered."""

RELEASABLE = frozenset(
    {
        Status.ALLOCATED,
        Status.RESERVED,
        Status.BROKEN,
        Status.DEPLOYING,
        Status.DEPLOYED,
        Status.FAILED_DEPLOYMENT,
        Status.FAILED_DISK_ERASING,
        Status.FAILED_RELEASING,
    }
)

DEPLOYABLE = frozenset({Status.READY, Status.ALLOCATED})

OWNED = frozenset(
    {
        Status.ALLOCATED,
        Status.DEPLOYING,
        Status.DEPLOYED,
        Status.FAILED_DEPLOYMENT,
        Status.RELEASING,
        Status.FAILED_RELEASING,
        Status.DISK_ERASING,
        Status.FAILED_DISK_ERASING,
    }
)
"""States in which a machine is somebody's."""

ERASED = frozenset({Status.DISK_ERASING, Status.FAILED_DISK_ERASING})
"""States in which a machine is on its way back and still carries the name it was taken under."""


class Stocked(Frozen):
    """A machine that the region starts out with."""

    hostname: str
    tags: tuple[str, ...] = ()
    zone: str = "default"
    pool: str = "default"
    cpu_count: int = 4
    memory: int = 8192
    """In MiB."""
    architecture: str = "amd64/generic"

    @property
    def system_id(self) -> str:
        """Six characters that depend on the host's name alone."""
        return hashlib.sha256(self.hostname.encode()).hexdigest()[:6]


class Machine(Record):
    """Everything that survives the site's process."""

    number: int
    """The order in which machines were enlisted, which is the order of lists."""
    system_id: str
    hostname: str
    address: str
    """The one address this machine ever gets; shown only while it is `claimed`."""
    tags: list[str]
    zone: str
    pool: str
    cpu_count: int
    memory: int
    architecture: str

    status: Status = Status.READY
    message: str = ""
    owner: str = ""
    agent_name: str = ""
    annotations: dict[str, str] = Field(default_factory=dict)
    powered: bool = False
    locked: bool = False
    claimed: bool = False
    series: str = ""
    hwe_kernel: str = ""
    user_data: str = ""

    due: float = 0.0
    """When the transition under way ends, on the site's clock."""
    doom: str = ""
    """Why it will end badly. Empty: it will not."""

    @property
    def cost(self) -> float:
        """What allocation takes the least of."""
        return self.cpu_count + self.memory / 1024

    @property
    def mac_address(self) -> str:
        return f"52:54:00:{self.number >> 16 & 255:02x}:{self.number >> 8 & 255:02x}" + (
            f":{self.number & 255:02x}"
        )
