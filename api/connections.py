"""Connections of callers: how many are open, from which addresses, and which are closed first.

A listener has one table. A new connection takes the place of one that has completed nothing, the
oldest first, when its address or the listener has as many as it may; only where there is none is it
refused. So a caller that opens connections and sends nothing displaces its own, and a caller that
does something is not displaced by it.

Connections that come from a trusted proxy carry the calls of many callers: they count in all, and
not by address."""

import ipaddress
import resource
from collections.abc import Sequence
from enum import IntEnum
from time import monotonic
from typing import NamedTuple, Protocol, TypeAlias

from api.origin import Network, shown, trusted

Connected: TypeAlias = dict["Connection", None]
"""Connections in the order in which they came to where they are."""

ADDRESSES = 4096
"""Addresses without a connection whose rate is remembered, at most."""

RESET_BURST = 10
"""Seconds' worth of resets that may come at once."""

REFUSAL_SECONDS, LONGEST_WAIT_SECONDS = 0.01, 5.0
"""What a refused call costs an address: a hundred a second are answered."""

KEPT_SHARE, KEPT_MOST = 4, 256
"""Descriptors that no connection gets, for the database, Temporal and files: a quarter of all, and
not more than so many."""


class ConnectionLimits(NamedTuple):
    """What an operator decides about connections."""

    most: int = 4096
    most_per_address: int = 1024
    new_per_second: float = 500.0
    """Of one address."""
    handshake_seconds: float = 10.0
    """What a connection gets for its first complete request, TLS included."""
    resets_per_second: float = 500.0
    """Calls that the clients of one address call off."""


class Stage(IntEnum):
    """How far a connection has come. The lowest are closed first."""

    NEW = 0
    """No complete request has come."""
    IDLE = 1
    """No call is open."""
    BUSY = 2
    SIGNED_IN = 3


CLOSABLE = (Stage.NEW, Stage.IDLE)
"""What may be closed for a new connection."""


class Bucket:
    """A token bucket: so many at once, and so many a second in the long run."""

    __slots__ = ("_at", "_left", "burst", "rate")

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._left, self._at = burst, monotonic()

    def take(self, count: float = 1) -> bool:
        """Whether there were that many."""
        now = monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True

    @property
    def is_full(self) -> bool:
        return self._left + (monotonic() - self._at) * self.rate >= self.burst


class Connection(Protocol):
    """One connection, as its table sees it."""

    place: str
    """Where it comes from, as `api/origin.py` writes it."""
    is_trusted: bool
    """Whether a proxy that is believed speaks there."""
    stage: Stage

    def displace(self) -> None:
        """Close it at once; the table has forgotten it."""


class _Address:
    """The connections of one address."""

    __slots__ = ("count", "new", "resets", "stages", "waits_until")

    def __init__(self, limits: ConnectionLimits) -> None:
        self.new = Bucket(limits.new_per_second, limits.new_per_second)
        self.resets = Bucket(limits.resets_per_second, RESET_BURST * limits.resets_per_second)
        self.count = 0
        self.waits_until = 0.0
        """When those of its connections go on that were refused a call."""
        self.stages: tuple[Connected, ...] = tuple({} for _ in Stage)


class ConnectionTable:
    def __init__(self, limits: ConnectionLimits, proxies: Sequence[Network] = ()) -> None:
        self.limits = limits
        self._proxies = proxies
        self._addresses: dict[str, _Address] = {}
        self._stages: tuple[Connected, ...] = tuple({} for _ in Stage)
        self.count = 0
        self.refused = 0
        self.displaced = 0

    def locate(self, peername: object) -> tuple[str, bool]:
        """Where a socket's other end is, and whether a trusted proxy is there."""
        host = peername[0] if isinstance(peername, tuple) and peername else ""
        try:
            address = ipaddress.ip_address(str(host).partition("%")[0])
        except ValueError:
            return shown(None), False
        address = getattr(address, "ipv4_mapped", None) or address
        return shown(address), trusted(address, self._proxies)

    def admit(self, connection: Connection) -> bool:
        """Take it in, or say no. Others may be closed for it."""
        address = self._address(connection.place)
        if not connection.is_trusted and not self._fits(address):
            self.refused += 1
            return False
        if self.count >= self.limits.most and not self._displace(self._stages):
            self.refused += 1
            return False
        self.count += 1
        address.count += 1
        self._stages[connection.stage][connection] = None
        address.stages[connection.stage][connection] = None
        return True

    def move(self, connection: Connection, stage: Stage) -> None:
        """It has come to this stage, as the last one."""
        address = self._addresses.get(connection.place)
        if address is None or connection not in self._stages[connection.stage]:
            return
        for stages in (self._stages, address.stages):
            stages[connection.stage].pop(connection, None)
            stages[stage][connection] = None
        connection.stage = stage

    def remove(self, connection: Connection) -> None:
        """It is closed. One that is not there is no matter."""
        address = self._addresses.get(connection.place)
        if address is None or connection not in self._stages[connection.stage]:
            return
        self.count -= 1
        address.count -= 1
        for stages in (self._stages, address.stages):
            stages[connection.stage].pop(connection, None)

    def may_reset(self, connection: Connection) -> bool:
        """Whether one more call may be called off there."""
        return connection.is_trusted or self._address(connection.place).resets.take()

    def penalise(self, connection: Connection) -> float:
        """Seconds for which a connection is not read from, since it was refused one more call. The
        connections of an address that are refused calls wait for one another, and no others do."""
        address, now = self._address(connection.place), monotonic()
        address.waits_until = max(now, address.waits_until) + REFUSAL_SECONDS
        address.waits_until = min(address.waits_until, now + LONGEST_WAIT_SECONDS)
        return address.waits_until - now

    @property
    def open(self) -> list[Connection]:
        """All of them, as they are now."""
        return [each for stage in self._stages for each in stage]

    def _fits(self, address: _Address) -> bool:
        if not address.new.take():
            return False
        most = self.limits.most_per_address
        return address.count < most or self._displace(address.stages)

    def _displace(self, stages: Sequence[Connected]) -> bool:
        """Close the first that has completed nothing, or does nothing."""
        for stage in CLOSABLE:
            for connection in stages[stage]:
                self.displaced += 1
                self.remove(connection)
                connection.displace()
                return True
        return False

    def _address(self, place: str) -> _Address:
        found = self._addresses.get(place)
        if found is None:
            if len(self._addresses) >= ADDRESSES + self.count:
                self._addresses = {
                    name: each
                    for name, each in self._addresses.items()
                    if each.count or not each.new.is_full
                }
            found = self._addresses[place] = _Address(self.limits)
        return found


def raise_descriptors() -> int:
    """Let this process open as many files as it may be allowed to, and say how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # such as a platform whose kernel allows less
            pass
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


def fitted(
    limits: ConnectionLimits, descriptors: int, each: int, listeners: int
) -> ConnectionLimits:
    """The limits of one of so many listeners: they share what descriptors are not kept back. A
    connection takes `each` of them."""
    kept = min(descriptors // KEPT_SHARE, KEPT_MOST)
    most = max(8, min(limits.most, (descriptors - kept) // listeners // each))
    return limits._replace(most=most, most_per_address=min(limits.most_per_address, most))
