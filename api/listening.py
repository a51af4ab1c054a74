"""Addresses to listen on, and what is said of one that cannot be."""

import socket

from domain.errors import Unavailable

BACKLOG = 512


def bound(address: str, setting: str) -> socket.socket:
    """A socket that listens on `address`, a host and a port. Unavailable, naming the setting to
    change, if somebody else has it or it is none of this machine's."""
    host, _, port = address.rpartition(":")
    try:
        listening = socket.create_server(
            (host.strip("[]"), int(port)),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
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
