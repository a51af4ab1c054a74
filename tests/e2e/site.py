"""A whole site as its user starts it, on ports and in a folder of the test's own."""

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = (sys.executable, "-m", "cli")

PORTS = {
    "WINDLASS_TEMPORAL__ADDRESS": "127.0.0.1:{}",
    "WINDLASS_TEMPORAL__UI_PORT": "{}",
    "WINDLASS_TEMPORAL__METRICS_PORT": "{}",
    "WINDLASS_SITE__PORT": "{}",
    "WINDLASS_GRPC_ADDRESS": "127.0.0.1:{}",
    "WINDLASS_HTTP_ADDRESS": "127.0.0.1:{}",
    "WINDLASS_WORKER__METRICS_PORT": "{}",
    "WINDLASS_KAAS__SSH_PORT": "{}",
    "WINDLASS_AGENT__LISTEN": "127.0.0.1:{}",
}

HURRIED = {"DEPLOY": "0.2", "BOOT": "0.1", "CLOUD_INIT": "0.1", "RELEASE": "0.1"} | {
    "INITIALISE": "0.2",
    "JOIN": "0.1",
    "NODE_READY": "0.1",
}

UP_SECONDS = 100


class Place:
    """A folder to start a site in, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        with _free_ports(len(PORTS)) as ports:
            found = dict(zip(PORTS, ports, strict=True))
        prefix = {name: text.format(found[name]) for name, text in PORTS.items()}
        network = f"127.{random.randint(50, 250)}"  # noqa: S311 (an address, no secret)
        self.env = {
            **{name: value for name, value in os.environ.items() if "WINDLASS" not in name},
            **prefix,
            **{f"WINDLASS_SITE__PACE__{name}": value for name, value in HURRIED.items()},
            "WINDLASS_SITE__NETWORK": network,
            "WINDLASS_MAAS__URL": f"http://127.0.0.1:{found['WINDLASS_SITE__PORT']}/MAAS/",
            "WINDLASS_CEPH__URLS": f'["http://127.0.0.1:{found["WINDLASS_SITE__PORT"]}/ceph"]',
            "WINDLASS_CEPH__KUBERNETES": "hello",
            "WINDLASS_CEPH__LOOK_SECONDS": "5",
            "WINDLASS_ADDRESS": prefix["WINDLASS_GRPC_ADDRESS"],
            "WINDLASS_HTTP": f"http://{prefix['WINDLASS_HTTP_ADDRESS']}",
            "WINDLASS_AGENT__EMBEDDED": "1",
            "WINDLASS_AGENT__RUNTIME": "process",  # storage of podman would outlive the test
            "HOME": str(self.home),
            "NO_COLOR": "1",
        }

    def run(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Carry out one command line of ours and wait for its end."""
        return self.other(*PROGRAM, *words, **env)

    def other(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Carry out any command line here."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=UP_SECONDS,
            check=False,
        )

    @contextmanager
    def up(self) -> Iterator["Up"]:
        """`windlass up` running, and stopped afterwards if the test did not."""
        with subprocess.Popen(
            [*PROGRAM, "up"],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield Up(process)
            finally:
                if process.poll() is None:
                    process.terminate()


class Up:
    """A site that runs, and what it has said so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said = ""

    def until(self, pattern: str) -> str:
        """Read on until a line matches, and return that line."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + UP_SECONDS
        for line in self.process.stdout:
            self.said += line
            if re.search(pattern, line):
                return line
            assert time.monotonic() < deadline, self.said
        raise AssertionError(f"never said {pattern!r}:\n{self.said}")

    def rest(self) -> str:
        """Everything that is still said, to the end."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.read()
        return self.said


@contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
