"""Reads the manifests and configs of strangers without stalling this process.

Short texts are read here; long ones in worker processes, a few, which are started when one is
needed and killed when a text takes too long. What waits is bounded, and so is the wait."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from api.edge.text_worker import LENGTH, answer
from domain.app import Service
from domain.errors import Exhausted, Invalid, Unavailable
from domain.yaml_limits import TooComplexError, check_size

SHORT = 4096
"""Characters that are read in a thread of this process: some milliseconds at the worst."""

WORKERS = 2
MOST_WAITING = 32
START_SECONDS, READ_SECONDS = 60.0, 10.0

WORKER = (sys.executable, "-m", "api.edge.text_worker")


class TextReader:
    def __init__(
        self,
        *,
        workers: int = WORKERS,
        read_seconds: float = READ_SECONDS,
        command: Sequence[str] = WORKER,
    ) -> None:
        self._free = asyncio.Semaphore(workers)
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._waiting = 0
        self._read_seconds, self._command = read_seconds, command
        self._closed = False

    async def is_config(self, text: str) -> bool:
        """Whether a text is a JSON object or a YAML mapping."""
        return bool(await self._read("config", text))

    async def services(self, text: str) -> tuple[Service, ...]:
        """The services in a manifest, in its order. One that is no YAML has none."""
        return tuple(map(Service.model_validate, await self._read("services", text)))

    async def close(self) -> None:
        """End the workers. Reads that are under way are UNAVAILABLE."""
        self._closed = True
        await asyncio.gather(*map(self._ended, list(self._all)))

    async def _read(self, what: str, text: str) -> Any:
        """Invalid if the text is too large, nested too deep, or takes too long; Exhausted if too
        many wait already."""
        try:
            check_size(text)
        except TooComplexError as error:
            raise _refused(str(error)) from error
        request = {"what": what, "text": text}
        short = len(text) <= SHORT
        told = await (asyncio.to_thread(answer, request) if short else self._elsewhere(request))
        if "refused" in told:
            raise _refused(told["refused"])
        return told["found"]

    async def _elsewhere(self, request: dict[str, str]) -> dict[str, Any]:
        if self._waiting >= MOST_WAITING:
            raise Exhausted(
                "too many long manifests are being read", reason="TOO_MANY_TEXTS", do="try again"
            )
        self._waiting += 1
        try:
            async with self._free:
                return await self._asked(request)
        finally:
            self._waiting -= 1

    async def _asked(self, request: dict[str, str]) -> dict[str, Any]:
        worker = await self._worker()
        done = False
        try:
            async with asyncio.timeout(self._read_seconds):
                told = await _exchange(worker, json.dumps(request).encode())
            done = True
        except TimeoutError:
            raise _refused(f"reading it takes longer than {self._read_seconds:g} s") from None
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Unavailable(
                "the process that read a manifest ended", reason="TEXT_NOT_READ", do="try again"
            ) from error
        finally:
            if done and not self._closed:
                self._idle.append(worker)
            else:  # whatever it does, nobody waits for it
                await asyncio.shield(self._ended(worker))
        return told

    async def _worker(self) -> Process:
        """One that is idle, or a new one once it has answered."""
        while self._idle:
            worker = self._idle.pop()
            if worker.returncode is None:
                return worker
            await self._ended(worker)
        worker = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        self._all.add(worker)
        try:
            async with asyncio.timeout(START_SECONDS):
                await _exchange(worker, json.dumps({"what": "config", "text": ""}).encode())
        except BaseException as error:
            await asyncio.shield(self._ended(worker))
            if isinstance(error, TimeoutError | OSError | asyncio.IncompleteReadError):
                raise Unavailable(
                    "no process could be started to read a manifest",
                    reason="TEXT_NOT_READ",
                    do="try again; if it stays so, read the log of the API",
                ) from error
            raise
        return worker

    async def _ended(self, worker: Process) -> None:
        with suppress(ProcessLookupError):
            worker.kill()
        if worker.stdin:
            worker.stdin.close()
        await worker.wait()
        self._all.discard(worker)


async def _exchange(worker: Process, raw: bytes) -> dict[str, Any]:
    if worker.stdin is None or worker.stdout is None:
        raise BrokenPipeError
    worker.stdin.write(LENGTH.pack(len(raw)) + raw)
    await worker.stdin.drain()
    (length,) = LENGTH.unpack(await worker.stdout.readexactly(LENGTH.size))
    told: dict[str, Any] = json.loads(await worker.stdout.readexactly(length))
    return told


def _refused(why: str) -> Invalid:
    return Invalid(
        f"the text is too complex: {why}",
        reason="TEXT_TOO_COMPLEX",
        do="split the manifest into several apps, or make it smaller",
    )
