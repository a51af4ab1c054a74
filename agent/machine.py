"""What this machine has, and what of it is used."""

import os
import shutil
import time
from pathlib import Path

from domain.placement import Amounts

GIGA = 10**9


class Machine:
    """Figures come from /proc; what is set is believed instead."""

    def __init__(self, folder: Path, said: Amounts) -> None:
        self._folder, self._said = folder, said
        self._before = (time.monotonic(), _busy_seconds())

    def has(self) -> Amounts:
        return Amounts(
            cpu=self._said.cpu or (os.cpu_count() or 1) * 1000,
            memory=self._said.memory or _memory("MemTotal") // 10**6,
            disk=self._said.disk or shutil.disk_usage(self._folder).total // GIGA,
        )

    def uses(self) -> Amounts:
        """Since the last time this was asked."""
        now, busy = time.monotonic(), _busy_seconds()
        before, busy_before = self._before
        self._before = (now, busy)
        cpu = int(1000 * (busy - busy_before) / max(now - before, 0.001))
        has = self.has()
        memory = (_memory("MemTotal") - _memory("MemAvailable")) // 10**6
        disk = shutil.disk_usage(self._folder).used // GIGA
        return Amounts(
            cpu=min(max(cpu, 0), has.cpu),
            memory=min(memory, has.memory),
            disk=min(disk, has.disk),
        )


def _memory(name: str) -> int:
    """In bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _busy_seconds() -> float:
    """What all processors have worked since the machine started."""
    user, nice, system, *_ = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")
