"""Hosts that boot, let people in by SSH and run what they are told.

Read `hosts`, `host` and `disk`, then how one gets in and is heard: `sshd`, `sftp`, `shell` and
`script`. What can be run is in `commands`, `file_commands`, `services`, `etcd` and `kubeadm`;
`cloud_init` is what the first boot reads."""

from sim.hosts.hosts import SimulatedHosts

__all__ = ["SimulatedHosts"]
