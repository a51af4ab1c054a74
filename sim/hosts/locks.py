"""dpkg's lock: who wants to install waits for it as long as apt was told to, or not at all."""

import re

from sim.hosts.disk import Disk
from sim.hosts.host import Host

COMPLAINT = (
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1312 "
    "(unattended-upgr)\n"
    "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process "
    "using it?"
)

_TIMEOUT = re.compile(r"DPkg::Lock::Timeout[\s=]+\"?(\d+)")


def patience(disk: Disk, *words: str) -> float:
    """How many seconds apt waits for the lock, by an option or by its own files. Untold: none."""
    settings = [
        disk.read(path).decode() for path in disk.paths() if path.startswith("/etc/apt/apt.conf.d/")
    ]
    told = _TIMEOUT.findall(" ".join([*settings, *words]))
    return float(told[-1]) if told else 0.0


async def held(host: Host, seconds: float) -> bool:
    """Wait for the lock, and tell whether somebody else still has it after so long."""
    others = host.shared.faults.lasts(f"dpkg {host.id}")
    await host.shared.clock.sleep(min(others, seconds))
    return others > seconds
