"""Runs one program for `agent/process.py`, and outlives the agent: what it says goes to a log with
the time of every line, and how it ended is written down, whoever is there to read it.

It is started as a script of its own, and at once becomes nobody's child. It has to be small, so it
knows the standard library and nothing else.

    python -I -S shim.py FOLDER                 FOLDER/order.json says what to run
    python -I -S shim.py FOLDER COMMAND ...     become a command beside it, as whom it runs
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

PIECE = 8192
"""A line that is longer is written in pieces, as container runtimes do."""

LOG_BYTES = 10 * 2**20
"""As much as containers may write."""

ASIDE = ".1"
TICK_SECONDS = 0.2
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
LINGER_SECONDS = 1.0
"""How long what the program leaves behind may still write after it has ended."""


def stamp() -> str:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


class Log:
    """A log in the form of the container runtimes. One that is full is put aside and begun anew,
    and of those that were put aside there is the last."""

    def __init__(self, path: str, most_bytes: int = LOG_BYTES) -> None:
        self._path, self._most = path, most_bytes
        self._file = self._opened()
        self._size = os.fstat(self._file).st_size
        self._begun = {"stdout": b"", "stderr": b""}

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)

    def take(self, stream: str, raw: bytes) -> None:
        *lines, rest = (self._begun[stream] + raw).split(b"\n")
        for line in lines:
            self._write(stream, line, b"F")
        while len(rest) >= PIECE:
            self._write(stream, rest[:PIECE], b"P")
            rest = rest[PIECE:]
        self._begun[stream] = rest

    def end(self) -> None:
        for stream, rest in self._begun.items():
            if rest:
                self._write(stream, rest, b"P")

    def _write(self, stream: str, line: bytes, mark: bytes) -> None:
        written = b" ".join((stamp().encode(), stream.encode(), mark, line)) + b"\n"
        if self._size and self._size + len(written) > self._most:
            os.close(self._file)
            os.replace(self._path, self._path + ASIDE)
            self._file, self._size = self._opened(), 0
        self._size += os.write(self._file, written)


def started(order: dict[str, Any], out: int, err: int) -> int:
    """The process id of the program, once it is the program and leads a group of its own, so that
    nobody signals a group that is not there yet. It dies with us, and may not gain rights."""
    ours, until_then = os.pipe()  # which closes when it becomes the program, or fails to
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        become(order, order["command"])
    os.close(until_then)
    os.read(ours, 1)
    os.close(ours)
    return child


def become(order: dict[str, Any], command: list[str]) -> NoReturn:
    """Run a command in this process, as whom and where the order says."""
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(order["folder"])
        if order["user"]:
            os.setgroups([])
            os.setgid(order["user"])
            os.setuid(order["user"])
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user would forget it
        os.execvpe(command[0], command, order["environment"])  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as told:
            return int(told.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def signalled(pid: int, number: int) -> None:
    """Tell the whole group of the program."""
    with suppress(OSError):
        os.killpg(pid, number)


def watched(order: dict[str, Any], log: Log, pid: int, streams: dict[int, str]) -> dict[str, Any]:
    """Write down what the program says until it has ended; kill it if it eats too much."""
    chosen = selectors.DefaultSelector()
    for reading, stream in streams.items():
        chosen.register(reading, selectors.EVENT_READ, stream)
    ended, oom, until = None, False, 0.0
    while True:
        if not chosen.get_map():
            time.sleep(0.05)  # it said that it has nothing more to say
        for key, _ in chosen.select(TICK_SECONDS if ended is None else 0.05):
            raw = os.read(key.fd, 65536)
            if raw:
                log.take(key.data, raw)
            else:
                chosen.unregister(key.fd)
        if ended is None:
            most = order["memory_bytes"]
            if most and resident_bytes(pid) > most:
                oom = True
                signalled(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                ended = {"exit_code": code if code >= 0 else 128 - code, "oom": oom}
                ended["finished_ns"] = time.time_ns()
                until = time.monotonic() + LINGER_SECONDS
                signalled(pid, signal.SIGKILL)
        elif not chosen.get_map() or time.monotonic() > until:
            log.end()
            return ended


def written(path: str, told: dict[str, Any]) -> None:
    """All of it or nothing, for nobody else: an order holds what its caller keeps secret."""
    opened = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(opened, "w") as file:
        json.dump(told, file)
    os.replace(path + ".new", path)


def main() -> None:
    """Answer, by ending, once the program runs; go on as somebody of our own."""
    folder, *command = sys.argv[1:]
    if command:
        with open(os.path.join(folder, "order.json")) as file:
            become(json.load(file), command)
    runs, told = os.pipe()
    if os.fork():
        os.close(told)
        sys.exit(0 if os.read(runs, 1) else 1)
    os.close(runs)
    os.setsid()
    with open(os.path.join(folder, "order.json")) as file:
        order = json.load(file)
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    log = Log(os.path.join(folder, "log"))
    began = time.time_ns()
    pid = started(order, out_end, err_end)
    os.close(out_end)
    os.close(err_end)
    signal.signal(signal.SIGTERM, lambda *_: signalled(pid, signal.SIGTERM))
    us = {"pid": pid, "shim": os.getpid(), "started_ns": began}
    written(os.path.join(folder, "began.json"), us)
    os.write(told, b"!")
    os.close(told)
    ended = watched(order, log, pid, {out: "stdout", err: "stderr"})
    written(os.path.join(folder, "ended.json"), ended)


if __name__ == "__main__":
    main()
