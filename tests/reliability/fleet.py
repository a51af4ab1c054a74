"""The nodes of a drill: real agents, each a process of its own, whose pods are processes too; and
what really runs there, whatever anybody believes."""

import asyncio
import json
import os
import random
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from protos.gen.kudo import scheduler_pb2 as pb
from tests.reliability.installation import Installation, free_ports, listening
from tests.reliability.program import Program
from tests.support.load import limit

MARK = "DRILLED"
"""The variable by which a pod's process says whose it is."""

GONE_SECONDS = 10.0


def ordered(id: str) -> pb.Instance:
    """An instance that does nothing for as long as it may."""
    limit = pb.ResourceSummary(cpu=20, memory=10)
    return pb.Instance(
        id=id,
        uri="builtin:idle",
        environnement=[f"{MARK}={id}"],
        resource=pb.Resource(limit=limit),
    )


class Running(NamedTuple):
    """A pod that runs, by its own process and those that watch it."""

    instance: str
    node: str
    pid: int
    shims: tuple[int, ...] = ()


class Fleet:
    def __init__(self, there: Installation, nodes: Sequence[str], draw: random.Random) -> None:
        self._there = there
        self.nodes = nodes
        self._ports = dict(zip(nodes, free_ports(len(nodes), draw), strict=True))
        self._agents = there.folder / "agents"
        self.programs: dict[str, Program] = {}

    async def start(self, node: str, *, restarts: bool = True) -> None:
        """Have a node's agent run, the first time or again."""
        environment = {
            "AGENT__NODE": node,
            "AGENT__RUNTIME": "process",
            "AGENT__CONTROL": self._there.grpc,
            "AGENT__LISTEN": f"127.0.0.1:{self._ports[node]}",
            **{"AGENT__CPU": "100000", "AGENT__MEMORY_MB": "100000", "AGENT__DISK_GB": "1000"},
        }
        program = Program(
            node,
            [sys.executable, "-m", "agent"],
            self._there.environment | {f"WINDLASS_{name}": to for name, to in environment.items()},
            lambda: listening("127.0.0.1", self._ports[node]),
            log=self._there.folder / f"{node}.log",
            restarts=restarts,
        )
        if node in self.programs:
            program.kills = self.programs[node].kills
        self.programs[node] = program
        await program.start()

    async def kill(self, node: str, *, whole: bool) -> None:
        """SIGKILL of the agent. `whole`: with all that runs there, as when a machine dies."""
        await self.programs[node].kill()
        if whole:
            await self.end(node)

    async def end(self, node: str) -> None:
        """Kill what runs on a node, and wait until it is gone."""
        async with limit(GONE_SECONDS):
            while found := [one for one in self.running() if one.node == node]:
                for one in found:
                    with suppress(ProcessLookupError):
                        os.killpg(one.pid, signal.SIGKILL)
                    for shim in one.shims:
                        with suppress(ProcessLookupError):
                            os.kill(shim, signal.SIGKILL)
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Leave no agent, and nothing that any of them began."""
        for program in self.programs.values():
            await program.stop()
        for node in self.programs:
            await self.end(node)

    def running(self) -> list[Running]:
        """Every pod whose program runs, found among the processes of the machine."""
        found: defaultdict[Path, list[int]] = defaultdict(list)
        for shim, home in self._shims():
            found[home].append(shim)  # two, for as long as one of them begins
        return [one for home, shims in found.items() if (one := self._seen(home, *shims))]

    def _shims(self) -> Iterator[tuple[int, Path]]:
        root = str(self._agents).encode()
        for place in Path("/proc").iterdir():
            if not place.name.isdigit():
                continue
            with suppress(OSError):
                for word in (place / "cmdline").read_bytes().split(b"\0"):
                    if word.startswith(root):
                        yield int(place.name), Path(word.decode())

    def _seen(self, home: Path, *shims: int) -> Running | None:
        """None: it has not begun, or its program has ended."""
        try:
            order = json.loads((home / "order.json").read_text())
            pid = int(json.loads((home / "began.json").read_text())["pid"])
            alive = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] != "Z"
        except (OSError, ValueError):
            return None
        if not alive:
            return None
        node = home.relative_to(self._agents).parts[0]
        return Running(str(order["environment"][MARK]), node, pid, shims)
