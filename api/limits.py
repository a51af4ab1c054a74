"""What callers may take of a process, put together from what an operator sets."""

from collections.abc import Sequence
from typing import Protocol

from api.calls import CallLimits, Calls
from api.connections import ConnectionLimits, fitted, raise_descriptors
from api.front import Front
from api.http1 import HttpTimes
from api.origin import Network, Origins
from api.token_bucket import Rate
from api.traffic import TrafficLimits
from api.web import HttpLimits

MIB = 2**20
GRPC_DESCRIPTORS, HTTP_DESCRIPTORS = 3, 1
"""What one connection takes: gRPC's own end and ours of the socket between them besides."""


class Set(Protocol):
    """The settings that are read here."""

    @property
    def connections(self) -> int: ...
    @property
    def connections_per_address(self) -> int: ...
    @property
    def connections_per_second(self) -> float: ...
    @property
    def handshake_seconds(self) -> float: ...
    @property
    def streams_per_connection(self) -> int: ...
    @property
    def resets_per_second(self) -> float: ...
    @property
    def unfinished_mb(self) -> int: ...
    @property
    def unfinished_mb_per_address(self) -> int: ...
    @property
    def calls(self) -> int: ...
    @property
    def calls_per_user(self) -> int: ...
    @property
    def calls_before_sign_in(self) -> int: ...
    @property
    def health_calls(self) -> int: ...
    @property
    def streams_per_user(self) -> int: ...
    @property
    def reads_per_second(self) -> float: ...
    @property
    def writes_per_second(self) -> float: ...
    @property
    def health_calls_per_address(self) -> int: ...
    @property
    def http_connections(self) -> int: ...
    @property
    def http_connections_per_address(self) -> int: ...
    @property
    def http_head_seconds(self) -> float: ...
    @property
    def http_body_seconds(self) -> float: ...
    @property
    def http_idle_seconds(self) -> float: ...
    @property
    def http_answer_seconds(self) -> float: ...


class Limits:
    """The limits of one process: its descriptors are shared out, so it is made once."""

    def __init__(self, chosen: Set, proxies: Sequence[Network] = (), *, listeners: int = 3) -> None:
        self._listeners = listeners
        self._chosen = chosen
        self._proxies = proxies
        self._descriptors = raise_descriptors()

    def calls(self) -> Calls:
        """What counts the calls of all servers."""
        chosen = self._chosen
        limits = CallLimits(
            most=chosen.calls,
            per_user=chosen.calls_per_user,
            per_address=chosen.calls_before_sign_in,
            health=chosen.health_calls,
            health_per_address=chosen.health_calls_per_address,
            streams_per_user=chosen.streams_per_user,
            reads=Rate(chosen.reads_per_second, burst=2 * chosen.reads_per_second),
            writes=Rate(chosen.writes_per_second, burst=10 * chosen.writes_per_second),
        )
        return Calls(limits, Origins(self._proxies))

    def front(self) -> Front:
        """What accepts connections of one gRPC server."""
        chosen = self._chosen
        connections = ConnectionLimits(
            chosen.connections,
            chosen.connections_per_address,
            chosen.connections_per_second,
            chosen.handshake_seconds,
        )
        traffic = TrafficLimits(
            streams=chosen.streams_per_connection,
            resets_per_second=chosen.resets_per_second,
            unfinished_bytes=chosen.unfinished_mb * MIB,
            unfinished_bytes_per_address=chosen.unfinished_mb_per_address * MIB,
        )
        fitting = fitted(connections, self._descriptors, GRPC_DESCRIPTORS, self._listeners)
        return Front(fitting, traffic, self._proxies)

    def http(self) -> HttpLimits:
        chosen = self._chosen
        connections = ConnectionLimits(
            chosen.http_connections,
            chosen.http_connections_per_address,
            chosen.connections_per_second,
            chosen.handshake_seconds,
        )
        times = HttpTimes(
            head=chosen.http_head_seconds,
            body=chosen.http_body_seconds,
            idle=chosen.http_idle_seconds,
            answer=chosen.http_answer_seconds,
        )
        fitting = fitted(connections, self._descriptors, HTTP_DESCRIPTORS, self._listeners)
        return HttpLimits(fitting, times, self._proxies)
