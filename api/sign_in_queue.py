"""A fair queue for sign-ins: comparing a password is dear, so few are compared at once, and whose
turn is next goes around the networks that callers come from.

Within a network it goes around the addresses. Callers at an address where the user has signed in
before wait in a lane of their own, which has every second turn. When the queue is full, one that
waits for the network with most of them is sent away, drawn by lot."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from domain.errors import Exhausted

WAITING = 256
"""So many wait in each of the two lanes."""

V4_NETWORK, V6_NETWORK = 24, 48


class Waiting(NamedTuple):
    """Somebody who waits for a turn."""

    turn: "asyncio.Future[None]"
    address: str


def network_of(address: str) -> str:
    """The network that an address is counted to; addresses of IPv6 are networks already."""
    try:
        host = ip_address(address.partition("/")[0])
    except ValueError:
        return address
    return str(ip_network((host, V4_NETWORK if host.version == 4 else V6_NETWORK), strict=False))


class Lane:
    """Those who wait, by network and address."""

    def __init__(self) -> None:
        self._networks: dict[str, dict[str, deque[Waiting]]] = {}
        self._sizes: dict[str, int] = {}
        self.size = 0

    def add(self, waiting: Waiting) -> None:
        network = network_of(waiting.address)
        self._networks.setdefault(network, {}).setdefault(waiting.address, deque()).append(waiting)
        self._sizes[network] = self._sizes.get(network, 0) + 1
        self.size += 1

    def next(self) -> Waiting:
        """Whose turn it is. Its network and its address go to the end of their rows."""
        network = next(iter(self._networks))
        addresses = self._networks.pop(network)
        address = next(iter(addresses))
        row = addresses.pop(address)
        found = row.popleft()
        if row:
            addresses[address] = row
        if addresses:
            self._networks[network] = addresses
        self._less(network)
        return found

    def drop(self, waiting: Waiting) -> bool:
        """Take somebody out; False if they do not wait any more."""
        network = network_of(waiting.address)
        addresses = self._networks.get(network, {})
        row = addresses.get(waiting.address, deque())
        if waiting not in row:
            return False
        row.remove(waiting)
        if not row:
            del addresses[waiting.address]
        if not addresses:
            del self._networks[network]
        self._less(network)
        return True

    def heaviest(self) -> Waiting:
        """Somebody of the network that most wait for, of its address that most wait at."""
        most = max(self._sizes.values())
        network = random.choice([each for each, size in self._sizes.items() if size == most])  # noqa: S311 (no secret)
        rows = self._networks[network].values()
        longest = max(map(len, rows))
        row = random.choice([each for each in rows if len(each) == longest])  # noqa: S311
        return row[-1]

    def _less(self, network: str) -> None:
        self.size -= 1
        self._sizes[network] -= 1
        if not self._sizes[network]:
            del self._sizes[network]


class SignInQueue:
    def __init__(self, at_once: int, waiting: int = WAITING) -> None:
        self._free = at_once
        self._most = waiting
        self._known, self._unknown = Lane(), Lane()
        self._known_next = True

    @asynccontextmanager
    async def turn(self, address: str, *, known: bool) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the block ends. Exhausted if too many wait."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(self._known if known else self._unknown, address)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, lane: Lane, address: str) -> None:
        waiting = Waiting(asyncio.get_running_loop().create_future(), address)
        lane.add(waiting)
        if lane.size > self._most:
            sent_away = lane.heaviest()
            lane.drop(sent_away)
            if not sent_away.turn.done():
                sent_away.turn.set_exception(busy())
        try:
            await waiting.turn
        except asyncio.CancelledError:
            had_come = not lane.drop(waiting) and not waiting.turn.cancelled()
            if had_come and waiting.turn.exception() is None:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        lanes = [self._known, self._unknown] if self._known_next else [self._unknown, self._known]
        for lane in lanes:
            while lane.size:
                turn = lane.next().turn
                if not turn.done():  # nobody has hung up
                    self._known_next = lane is self._unknown
                    turn.set_result(None)
                    return
        self._free += 1


def busy() -> Exhausted:
    return Exhausted(
        "too many sign in at this moment",
        reason="SIGN_IN_BUSY",
        do="try again in a moment",
        retry_seconds=1,
    )
