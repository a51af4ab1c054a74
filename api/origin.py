"""Where a caller is: what guessing is counted by, and what the audit trail tells.

Behind a proxy every caller seems to be the proxy, which says in a header for whom it calls. Anybody
can send that header, so it counts as far as it comes from proxies that an operator trusts. Each
adds at the right the address that called it: what stands left of the first address, from there,
that is no proxy's may be made up."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias
from urllib.parse import unquote

from api.callers import peer

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

FORWARDED = "x-forwarded-for"
ELSEWHERE = "elsewhere"
"""Where somebody is who has no address, such as at a socket in the file system."""


class Called(Protocol):
    """The other end of a call, as far as it tells where it is."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...
    def peer(self) -> str: ...


class Origins:
    """Knows where callers are, behind proxies in these networks."""

    def __init__(self, proxies: Sequence[Network] = ()) -> None:
        self._proxies = proxies

    def place(self, line: Called) -> str:
        """Where the caller is: an IPv4 address, or the network of an IPv6 one, since those come in
        bunches."""
        address = _address(unquote(peer(line)))
        for said in _hops(line) if self._proxies else ():
            if address is None or not self._is_proxy(address):
                break
            nearer = _address(said)
            if nearer is None:  # the proxy did not know either
                break
            address = nearer
        return shown(address)

    def _is_proxy(self, address: Address) -> bool:
        return trusted(address, self._proxies)


def trusted(address: Address, proxies: Sequence[Network]) -> bool:
    """Whether one of the proxies has this address."""
    return any(address in network for network in proxies)


def _hops(line: Called) -> Iterator[str]:
    """What the header says, the nearest first. Several headers are one, in their order."""
    given = line.invocation_metadata() or ()
    said = [value for name, value in given if name == FORWARDED and isinstance(value, str)]
    return reversed(",".join(said).split(","))


def _address(said: str) -> Address | None:
    """An address, with or without a port, as gRPC, the HTTP door or a proxy writes it."""
    host = said.strip().removeprefix("ipv4:").removeprefix("ipv6:")
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:  # more of them are an IPv6 address's own
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def shown(address: Address | None) -> str:
    if address is None:
        return ELSEWHERE
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
