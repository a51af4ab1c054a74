"""Usage: what of a cloudlet is taken, and by whom.

Each instance's row says what it took, and exactly that is given back; so sums can always be told
from the rows, and never fall below nothing."""

import functools
from collections.abc import Iterable, Mapping

from pydantic import Field

from domain.access_ports import Protocol
from domain.frozen import Frozen
from domain.refusal import Refusal

BITS: dict[Protocol, int] = {Protocol.TCP: 1, Protocol.UDP: 2}
"""How a public port says which protocols are taken on it. HTTP takes none: it shares one."""

RESERVED = frozenset({22, 443})
FIRST, LAST = 10_000, 64_999
"""Where a port is looked for whose own number is not to be had."""


class Taken(Frozen):
    """What one instance took."""

    ram: int = 0
    vcores: int = 0
    disk: int = 0
    addresses: int = 0
    ports: tuple[tuple[int, int], ...] = ()
    """Public ports, each with the bit of its protocol."""


class Usage(Frozen):
    """What is taken of one cloudlet."""

    ram: int = 0
    vcores: int = 0
    disk: int = 0
    addresses: int = 0
    ports: dict[int, int] = Field(default_factory=dict)


def plus(usage: Usage, taken: Taken) -> Usage:
    """What is taken once somebody has taken that."""
    ports = dict(usage.ports)
    for number, bit in taken.ports:
        ports[number] = ports.get(number, 0) | bit
    return _moved(usage, taken, ports, 1)


def minus(usage: Usage, taken: Taken) -> Usage:
    """What is taken once that is given back."""
    ports = dict(usage.ports)
    for number, bit in taken.ports:
        if left := ports.pop(number, 0) & ~bit:
            ports[number] = left
    return _moved(usage, taken, ports, -1)


def _moved(usage: Usage, taken: Taken, ports: dict[int, int], sign: int) -> Usage:
    return Usage.model_construct(
        ram=max(0, usage.ram + sign * taken.ram),
        vcores=max(0, usage.vcores + sign * taken.vcores),
        disk=max(0, usage.disk + sign * taken.disk),
        addresses=max(0, usage.addresses + sign * taken.addresses),
        ports=ports,
    )


def summed(taken: Iterable[Taken]) -> Usage:
    """All of it together."""
    return functools.reduce(plus, taken, Usage())


class Pool:
    """The public ports of a cloudlet, while they are given to one instance. Nothing is given back
    meanwhile, so nobody looks twice at a port that is taken."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = dict(ports)
        self._first = dict.fromkeys(BITS.values(), FIRST)

    def take(self, protocol: Protocol, wanted: int) -> int:
        """The port that is wanted if it is to be had, else the first of those kept for this."""
        bit = BITS[protocol]
        own = wanted not in RESERVED and self._is_free(wanted, bit)
        found = wanted if own else self._next(bit)
        self._ports[found] = self._ports.get(found, 0) | bit
        return found

    def _next(self, bit: int) -> int:
        taken = self._ports.get
        numbers = range(self._first[bit], LAST + 1)
        found = next((number for number in numbers if not taken(number, 0) & bit), 0)
        if not found:
            raise Refusal.APPINST_NO_PORTS()
        self._first[bit] = found + 1
        return found

    def _is_free(self, number: int, bit: int) -> bool:
        return not self._ports.get(number, 0) & bit
