"""Exposure: by which name and which ports an app's instance is reached, by where it runs."""

from enum import StrEnum

from domain.access_ports import Port, Protocol
from domain.app import App, Deployment, Service
from domain.clusterinst import ClusterInstKey, IpAccess
from domain.frozen import Frozen
from domain.manifest import CARRIED
from domain.naming import as_dns
from domain.usage import BITS, Pool, Taken

DOMAIN = "mobiledgex.net"

HTTP_PORT = 443
"""All HTTP of a proxy comes in there, and is told apart by its path."""


class Exposure(StrEnum):
    """Ways of being reached."""

    DEFAULT = "default"
    """On a developer's own back end, which is none of our business."""
    MACHINE = "machine"
    """A virtual machine with an address of its own."""
    CLOUD = "cloud"
    """In a public cloud, where each service has an address."""
    SHARED = "shared"
    """By the proxy of the cloudlet, whose ports are given out."""
    DEDICATED = "dedicated"
    """By the address of its cluster."""


class MappedPort(Frozen):
    protocol: Protocol
    internal: int
    public: int = 0
    path_prefix: str = ""
    fqdn_prefix: str = ""


def exposure(app: App, key: ClusterInstKey, access: IpAccess) -> Exposure:
    if key.cloudlet.is_default:
        return Exposure.DEFAULT
    if app.deployment == Deployment.VM:
        return Exposure.MACHINE
    if key.cloudlet.is_public_cloud:
        return Exposure.CLOUD
    return Exposure.DEDICATED if access is IpAccess.DEDICATED else Exposure.SHARED


def uri(way: Exposure, app: App, key: ClusterInstKey, given: str) -> str:
    """The name of an instance. On the default cloudlet it is the one that was given."""
    own = _squeezed(app.developer, app.name, app.version)
    place = [as_dns(key.cloudlet.name), as_dns(key.cloudlet.operator), DOMAIN]
    parts = {
        Exposure.MACHINE: [own, *place],
        Exposure.CLOUD: [own, as_dns(key.cluster), *place],
        Exposure.SHARED: place,
        Exposure.DEDICATED: [as_dns(key.cluster), *place],
    }
    return given if way is Exposure.DEFAULT else ".".join(parts[way])


def mapped(
    way: Exposure,
    app: App,
    wanted: tuple[Port, ...],
    services: tuple[Service, ...],
    ports: dict[int, int],
) -> tuple[tuple[MappedPort, ...], Taken]:
    """The ports of an instance in the order of its app, and what it takes of `ports`, the public
    ports of its cloudlet. Exhausted if none is left."""
    pool, mine = Pool(ports), []
    made = [_mapped(way, app, port, services, pool) for port in wanted]
    if way is Exposure.SHARED:
        mine = [(each.public, BITS[each.protocol]) for each in made if each.protocol in BITS]
    return tuple(made), Taken(ports=tuple(mine))


def _mapped(
    way: Exposure, app: App, port: Port, services: tuple[Service, ...], pool: Pool
) -> MappedPort:
    if way is Exposure.DEFAULT:
        return MappedPort(protocol=port.protocol, internal=port.number)
    if port.protocol is Protocol.HTTP and way in _PROXIED:
        owner = f"{as_dns(app.developer)}/{_squeezed(app.name, app.version)}"
        path = f"{owner}/p{port.number}"
        return MappedPort(
            protocol=port.protocol, internal=port.number, public=HTTP_PORT, path_prefix=path
        )
    turned = port.protocol is Protocol.HTTP and way is Exposure.CLOUD
    protocol = Protocol.TCP if turned else port.protocol
    public = port.number
    if way is Exposure.SHARED:
        public = pool.take(protocol, port.number)
    prefix = _prefix(app, protocol, port.number, services)
    return MappedPort(protocol=protocol, internal=port.number, public=public, fqdn_prefix=prefix)


_PROXIED = frozenset({Exposure.SHARED, Exposure.DEDICATED})


def _prefix(app: App, protocol: Protocol, number: int, services: tuple[Service, ...]) -> str:
    """What stands before an instance's name for one port: the service that has it."""
    if app.deployment != Deployment.KUBERNETES or protocol is Protocol.HTTP:
        return ""
    wanted = (CARRIED[protocol], number)
    return next((f"{service.name}." for service in services if wanted in service.ports), "")


def _squeezed(*titles: str) -> str:
    return "".join(map(as_dns, titles))
