"""Hosts, over SSH."""

from clients.ssh.nodes import SshNodes

__all__ = ["SshNodes"]
