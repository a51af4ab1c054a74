"""What MAAS tells us, as far as we read it. Nothing it says is taken for granted."""

import ipaddress
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from clients.maas.transport import unreadable
from domain.machine import Machine, Slot

SystemId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""It becomes part of a path."""

LONGEST_TEXT = 1024

Text = Annotated[str, AfterValidator(lambda text: text[:LONGEST_TEXT])]
"""What is longer is cut and not refused: it may be somebody's note on a machine of theirs, in a
list that holds ours as well."""


class Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Zone(Told):
    name: Text = ""


class Link(Told):
    ip_address: Text | None = None


class Interface(Told):
    links: list[Link] = []


class SeenMachine(Told):
    """A machine. Older regions call its annotations owner data, and both may be missing."""

    system_id: SystemId
    status_name: Text
    status_message: Text | None = None
    hostname: Text = ""
    power_state: Text = ""
    tag_names: list[Text] = []
    zone: Zone = Zone()
    cpu_count: float = 0
    memory: float = 0
    ip_addresses: list[Text] = []
    boot_interface: Interface | None = None
    workload_annotations: dict[str, Text] | None = None
    owner_data: dict[str, Text] | None = None

    @property
    def annotations(self) -> dict[str, str]:
        return self.workload_annotations or self.owner_data or {}

    def filling(self, slot: Slot) -> Machine:
        """The machine as what fills that slot."""
        return Machine(
            slot=slot,
            system_id=self.system_id,
            hostname=self.hostname,
            address=self.address,
            status=self.status_name,
        )

    @property
    def cost(self) -> float:
        """What MAAS itself goes by when it picks the cheapest."""
        return self.cpu_count + self.memory / 1024

    @property
    def address(self) -> str:
        """Where to reach it: the boot interface's address if it has one. Link-local and IPv6
        addresses do not count. Empty until MAAS shows one that does."""
        usable = [text for text in self.ip_addresses if _usable(text)]
        links = self.boot_interface.links if self.boot_interface else []
        booted = [link.ip_address for link in links if link.ip_address in usable]
        return next((text for text in (*booted, *usable) if text), "")


class Power(Told):
    state: Text = ""


class Address(Told):
    ip: Text | None = None


class SeenName(Told):
    """A DNS record."""

    id: Annotated[int, Field(ge=0)]
    fqdn: Text
    address_ttl: int | None = None
    ip_addresses: list[Address] | None = None

    @property
    def addresses(self) -> set[str]:
        return {address.ip for address in self.ip_addresses or () if address.ip}


Shape = TypeVar("Shape")

MACHINE = TypeAdapter(SeenMachine)
MACHINES = TypeAdapter(list[SeenMachine])
NAMES = TypeAdapter(list[SeenName])
POWER = TypeAdapter(Power)


def read(adapter: TypeAdapter[Shape], body: bytes, call: str) -> Shape:
    """The answer to `call` in its shape, or Unavailable."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise unreadable(call, f"what we asked for ({where or 'no JSON'})") from error


def _usable(text: str) -> bool:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_link_local or address.is_unspecified or address.is_multicast)
