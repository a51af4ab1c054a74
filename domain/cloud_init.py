"""What a machine is told to become at its first boot, short of joining anything.

It lies readable in MAAS and on its metadata service, so it holds no secret: who may log in is a
public key. Where packages come from is MAAS's business too: it puts the package repositories it
knows, with their keys, into every system it installs, and the Kubernetes one belongs there, unless
`Supplies` name it."""

import json
from collections.abc import Iterable
from typing import Any

from domain.machine import Slot
from domain.supplies import Supplies

LOGIN = "windlass"
"""The user that we log in as."""

APT_LOCK_SECONDS = 300
"""Unattended upgrades and cloud-init itself hold dpkg's lock in a machine's first minutes."""

KUBERNETES_PACKAGES = ("kubeadm", "kubelet", "kubectl")

_MODULES = ("br_netfilter", "overlay")

_SYSCTL = {
    "net.bridge.bridge-nf-call-ip6tables": 1,
    "net.bridge.bridge-nf-call-iptables": 1,
    "net.ipv4.ip_forward": 1,
}


def user_data(slot: Slot, supplies: Supplies | None = None) -> str:
    """Cloud-init user data for the machine in `slot`. The same slot and supplies give the same
    text.

    JSON is YAML, and has but one way to be written."""
    config = _config(slot, supplies or Supplies())
    return "#cloud-config\n" + json.dumps(config, indent=1, sort_keys=True) + "\n"


def _config(slot: Slot, supplies: Supplies) -> dict[str, Any]:
    version = slot.release.version
    return supplies.cloud_config(version) | {
        "hostname": slot.name,
        "manage_etc_hosts": True,
        "disable_root": True,
        "ssh_pwauth": False,
        "users": [
            {
                "name": LOGIN,
                "gecos": "Windlass",
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": [slot.public_key],
            }
        ],
        "write_files": [
            _file("/etc/modules-load.d/windlass.conf", _MODULES),
            _file("/etc/sysctl.d/90-windlass.conf", (f"{k} = {v}" for k, v in _SYSCTL.items())),
            _file("/etc/apt/apt.conf.d/90windlass", [f'DPkg::Lock::Timeout "{APT_LOCK_SECONDS}";']),
            *(_file(path, text.splitlines()) for path, text in supplies.files().items()),
        ],
        "swap": {"size": 0},
        "package_update": True,
        "packages": [
            "containerd",
            *([package, f"{version}-*"] for package in KUBERNETES_PACKAGES),
        ],
        "runcmd": [
            ["swapoff", "--all"],
            ["sed", "--in-place", r"/\sswap\s/d", "/etc/fstab"],
            ["modprobe", "--all", *_MODULES],
            ["sysctl", "--system"],
            ["apt-mark", "hold", *KUBERNETES_PACKAGES],
            ["mkdir", "--parents", "/etc/containerd"],
            ["sh", "-c", supplies.containerd(version)],
            ["systemctl", "daemon-reload"],
            ["systemctl", "restart", "containerd"],
            ["systemctl", "enable", "kubelet"],
        ],
    }


def _file(path: str, lines: Iterable[str]) -> dict[str, str]:
    return {"path": path, "permissions": "0644", "content": "".join(f"{line}\n" for line in lines)}
