"""Addresses to listen on, and what is said of one that cannot be."""

import socket

from domain.errors import Unavailable

BACKLOG = 512


def bound(address: str, setting: str) -> socket.socket:
    """A socket that listens on `address`, a host and a port. Unavailable, naming the setting to
    change, if somebody else has it or it is none of this machine's."""
    host, _, port = address.rpartition(":")
    try:
        return socket.create_server(
            (host.strip("[]"), int(port)),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=BACKLOG,
        )
    except (OSError, ValueError, OverflowError) as error:
        raise Unavailable(
            f"cannot listen on {address}: it is in use, or no address of this machine",
            subject=address,
            reason="ADDRESS_IN_USE",
            do=f"stop what listens there, or set {setting} to another address",
        ) from error
