"""Cloudlets: places at the edge, as their operators describe them."""

from enum import StrEnum

from domain.frozen import Frozen
from domain.naming import DEFAULT_OPERATOR, is_title
from domain.refusal import Refusal, refuse_if

DEFAULT_CLOUDLET = "default"

PUBLIC_CLOUDS = frozenset({"gcp", "azure"})


class IpSupport(StrEnum):
    """How a cloudlet comes by public addresses."""

    UNSAID = "unsaid"
    STATIC = "static"
    DYNAMIC = "dynamic"
    STRANGE = "strange"
    """No word of the contract."""


IP_REFUSALS: dict[IpSupport, Refusal] = {
    IpSupport.STATIC: Refusal.CLOUDLET_IPS_STATIC,
    IpSupport.STRANGE: Refusal.CLOUDLET_IPS,
}


class CloudletKey(Frozen):
    operator: str
    name: str

    @property
    def is_default(self) -> bool:
        """Whether it is the one that needs no cloudlet: a developer's own back end."""
        return (self.operator, self.name) == (DEFAULT_OPERATOR, DEFAULT_CLOUDLET)

    @property
    def is_public_cloud(self) -> bool:
        """Whether each service gets an address of its own there, without our doing."""
        return self.operator in PUBLIC_CLOUDS

    @property
    def text(self) -> str:
        """As the first controller wrote keys into some texts, with a blank after each part."""
        operator = f"name:{_quoted(self.operator)} " if self.operator else ""
        return f"operator_key:<{operator}> " + (f"name:{_quoted(self.name)} " if self.name else "")


class Whereabouts(Frozen):
    """What is known of a place beside its latitude and longitude. No rule reads it."""

    horizontal_accuracy: float = 0
    vertical_accuracy: float = 0
    altitude: float = 0
    course: float = 0
    speed: float = 0
    seconds: int = 0
    nanos: int = 0
    """When that was."""


class Cloudlet(Frozen):
    operator: str
    name: str
    ip_support: IpSupport
    dynamic_ips: int
    latitude: float
    longitude: float
    whereabouts: Whereabouts = Whereabouts()


_ESCAPES = {0x22: r"\"", 0x5C: r"\\", 0x0A: r"\n", 0x0D: r"\r", 0x09: r"\t"}


def _quoted(text: str) -> str:
    """A text as protocol buffers print it: what is not printable ASCII in octal, byte by byte."""
    letters = (
        _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
        for byte in text.encode()
    )
    return f'"{"".join(letters)}"'


class Changing(Frozen):
    """Which parts of a cloudlet a change names."""

    ip_support: bool
    dynamic_ips: bool
    latitude: bool
    longitude: bool


def check(cloudlet: Cloudlet) -> None:
    """Refuse a new cloudlet that cannot be."""
    check_ip_support(cloudlet)
    refuse_if(cloudlet.dynamic_ips < 1, Refusal.CLOUDLET_NO_IP)
    nowhere = cloudlet.latitude == 0 and cloudlet.longitude == 0
    refuse_if(nowhere, Refusal.CLOUDLET_NO_LOCATION)
    check_key(CloudletKey(operator=cloudlet.operator, name=cloudlet.name))
    _check_ranges(cloudlet)


def check_key(key: CloudletKey) -> None:
    """Refuse names that cannot be."""
    refuse_if(not is_title(key.operator), Refusal.OPERATOR_NAME)
    refuse_if(not is_title(key.name), Refusal.CLOUDLET_NAME)


def check_change(given: Cloudlet, changing: Changing) -> None:
    """Refuse a change that cannot be, whatever the cloudlet is now. A latitude or longitude of 0 is
    more often forgotten than meant."""
    check_key(CloudletKey(operator=given.operator, name=given.name))
    static = changing.ip_support and given.ip_support is IpSupport.STATIC
    few = changing.dynamic_ips and given.dynamic_ips < 1
    refuse_if(few and not static, Refusal.CLOUDLET_FEW_IPS)
    refuse_if(changing.latitude and given.latitude == 0, Refusal.CLOUDLET_LATITUDE_ZERO)
    refuse_if(changing.longitude and given.longitude == 0, Refusal.CLOUDLET_LONGITUDE_ZERO)
    _check_ranges(given, latitude=changing.latitude, longitude=changing.longitude)
    strange = given.ip_support is IpSupport.STRANGE
    refuse_if(changing.ip_support and strange, Refusal.CLOUDLET_IP_SUPPORT)


def check_ip_support(cloudlet: Cloudlet) -> None:
    """Refuse every way but dynamic addresses. Silence means those."""
    if refusal := IP_REFUSALS.get(cloudlet.ip_support):
        raise refusal()


def check_addresses(cloudlet: Cloudlet, used: int) -> None:
    """Refuse a changed cloudlet with fewer addresses than its instances use."""
    refuse_if(cloudlet.dynamic_ips < used, Refusal.CLOUDLET_IPS_IN_USE)


def _check_ranges(cloudlet: Cloudlet, *, latitude: bool = True, longitude: bool = True) -> None:
    north, east = -90 <= cloudlet.latitude <= 90, -180 <= cloudlet.longitude <= 180
    refuse_if(latitude and not north, Refusal.CLOUDLET_LATITUDE)
    refuse_if(longitude and not east, Refusal.CLOUDLET_LONGITUDE)
