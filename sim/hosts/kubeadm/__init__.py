"""kubeadm on a simulated host.

Read `command`, `config` and `runs`, then the two great verbs, `init` and `join`, and what comes to
every node in time, `upgrade`."""

from sim.hosts.kubeadm.command import COMMANDS

__all__ = ["COMMANDS"]
