"""Where an agent may be: an address that a node states is resolved once, and judged before anything
is sent there. Nodes choose it, so it must lead neither to our own machine nor to what only routers
and clouds' metadata services answer at."""

import asyncio
import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from domain.errors import Invalid

HOST_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]{1,253})):(\d{1,5})")

RESOLVE_SECONDS = 3.0

Address = IPv4Address | IPv6Address


async def judged(text: str, *, local: bool) -> str:
    """The address to dial, with the host as a number. Invalid unless it is HOST:PORT and leads to
    another machine; `local` allows our own, as a trial site needs it."""
    found = HOST_PORT.fullmatch(text)
    port = int(found[3]) if found else 0
    if not found or not 0 < port < 65536:
        raise _refused(text, "it is not HOST:PORT")
    host = await _resolved(found[1] or found[2], text)
    if not local and (why := _forbidden(host)):
        raise _refused(text, why)
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


async def _resolved(host: str, text: str) -> Address:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return ip_address(str(found[0][4][0]).partition("%")[0])
    except (OSError, ValueError, IndexError, TimeoutError) as error:
        raise _refused(text, "its host cannot be resolved") from error


def _forbidden(host: Address) -> str:
    inner = _embedded(host)
    if inner.is_loopback or _is_own(inner) or _is_own(host):
        return "it leads to the machine of the API"
    if inner.is_link_local:
        return "it is link-local"
    if inner.is_multicast or inner.is_unspecified or inner.is_reserved:
        return "it is in a range for special use"
    if inner.version == 4 and (inner in BROADCAST or int(inner) >> 24 == 0):
        return "it is in a range for special use"
    return ""


BROADCAST = frozenset({IPv4Address("255.255.255.255")})


def _embedded(host: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to, or itself."""
    if host.version == 4:
        return host
    nat64 = IPv4Address(int(host) & 0xFFFFFFFF) if int(host) >> 32 == 0x64FF9B << 64 else None
    teredo = host.teredo[1] if host.teredo else None
    return host.ipv4_mapped or host.sixtofour or teredo or nat64 or host


def _is_own(host: Address) -> bool:
    """Whether the machine has this address: only then a socket can be bound to it."""
    family = socket.AF_INET6 if host.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(host), 0))
    except OSError:
        return False
    return True


def _refused(text: str, why: str) -> Invalid:
    return Invalid(
        f"the agent cannot be asked at {text[:80]!r}: {why}",
        reason="AGENT_ADDRESS_INVALID",
        do="set WINDLASS_AGENT__ADDRESS to HOST:PORT by which the API reaches the node",
    )
