"""Addresses to listen on, and what is said of one that cannot be; and a socket that is there."""

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from domain.errors import Invalid, Unavailable

BACKLOG = 512

FIRST_PASSED = 3
"""Behind the three that every process has."""

ALSO = "WINDLASS_NODES__ALSO_LISTEN"


class Also(NamedTuple):
    """Where gRPC is served besides."""

    address: str = ""
    """Empty: nowhere that other machines reach."""
    passed: socket.socket | None = None
    """Listens there already."""


def also(address: str, environment: Mapping[str, str] = os.environ) -> Also:
    """At this address, if it is one, or at the socket that whoever started us has opened for us, as
    systemd does: the variables say how many there are, and whether we are meant. Invalid if there
    is both, or more than one, or one that nobody can be served by."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return Also(address)
    if environment.get("LISTEN_FDS") != "1" or address:
        raise Invalid(
            f"one socket can be served besides, and {environment.get('LISTEN_FDS')} were passed"
            + (f" while {ALSO} names {address}" if address else ""),
            do=f"pass one socket, and unset {ALSO}",
        )
    try:
        passed = socket.socket(fileno=FIRST_PASSED)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        listens = 0
    if not listens:
        raise Invalid(
            "the socket that was passed is none that listens",
            do="pass one with ListenStream= in its unit, and Accept=no",
        )
    os.set_inheritable(FIRST_PASSED, False)
    if passed.family == socket.AF_UNIX:
        return Also(passed=passed)
    host, port = passed.getsockname()[:2]
    return Also(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", passed)


def bound(address: str, setting: str) -> socket.socket:
    """A socket that listens on `address`, a host and a port. Unavailable, naming the setting to
    change, if somebody else has it or it is none of this machine's."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        listening = socket.create_server(
            (host, int(port)),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
        # Whoever is accepted inherits it: answers in pieces do not wait for an ACK.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, ValueError, OverflowError) as error:
        raise Unavailable(
            f"cannot listen on {address}: it is in use, or no address of this machine",
            subject=address,
            reason="ADDRESS_IN_USE",
            do=f"stop what listens there, or set {setting} to another address",
        ) from error
