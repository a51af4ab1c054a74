"""kubeadm on a simulated host.

Read `command`, `config` and `runs`, then the two great verbs, `init` and `join`."""

from sim.hosts.kubeadm.command import COMMANDS

__all__ = ["COMMANDS"]
