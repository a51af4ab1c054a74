"""What pods write, copied as it is written, so that it is still there when they are not.

A copy is the log byte by byte, in files named after the offset they begin at. Of each app the
newest are kept. A runtime begins a log that is full anew, as another file: what was not copied of
the one before it is, if that was put aside."""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.ledger import Ledger
from agent.runtime import APP
from agent.shim import ASIDE
from domain.logline import Chunk

TICK_SECONDS = 0.1
PIECE = 64 * 1024
"""The most that is copied, or told, at once."""

PIECES = 16
"""So many are copied of one app before others have their turn: 10 MB a second."""


class Archive:
    def __init__(
        self, folder: Path, ledger: Ledger, ring: Callable[[], None], *, most_bytes: int
    ) -> None:
        self._folder, self._ledger, self._ring = folder, ledger, ring
        self._file_bytes = max(most_bytes // 2, PIECE)
        self._watched: dict[str, Path] = {}

    def watch(self, pod: str, log: Path | None) -> None:
        if log is not None:
            self._watched[pod] = log

    def finish(self, pod: str) -> None:
        """Copy what is left. Nothing more will be written."""
        if pod in self._watched:
            while self._copy(pod, rest=True):
                pass
            del self._watched[pod]

    async def run(self) -> None:
        """Copy what is written, for as long as this runs."""
        while True:
            for pod in list(self._watched):
                for _ in range(PIECES):
                    if not self._copy(pod):
                        break
            await asyncio.sleep(TICK_SECONDS)

    def chunks(self, pod: str, app: str, after: int) -> Sequence[Chunk]:
        """A piece past an offset. What was dropped is passed over."""
        for offset, path in self._files(pod, app):
            size = path.stat().st_size
            if offset + size > after:
                begin = max(after, offset)
                raw = self._read(path, begin - offset)
                return [Chunk(offset=begin, lines=raw)] if raw else []
        return []

    def last_chunks(self, pod: str, app: str, before: int | None) -> Sequence[Chunk]:
        """The piece before an offset, or the last one: whole lines, if one of them fits."""
        for offset, path in reversed(self._files(pod, app)):
            end = offset + path.stat().st_size
            end = end if before is None else min(end, before)
            if end <= offset:
                continue
            begin = max(offset, end - PIECE)
            with path.open("rb") as file:
                file.seek(begin - offset)
                raw = file.read(end - begin)
            if begin > offset and 0 < (cut := raw.find(b"\n") + 1) < len(raw):
                begin, raw = begin + cut, raw[cut:]
            return [Chunk(offset=begin, lines=raw)]
        return []

    def piece(self, pod: str, app: str, offset: int, length: int) -> bytes:
        """What was told to be there, or nothing if it was dropped since."""
        found = self.chunks(pod, app, offset)
        return found[0].lines[:length] if found and found[0].offset == offset else b""

    def forget(self, pod: str) -> None:
        for _, path in self._files(pod, APP):
            path.unlink()
        home = self._folder / pod
        if home.is_dir():
            home.rmdir()
        self._ledger.forget_memory(f"log/{pod}")

    def _files(self, pod: str, app: str) -> list[tuple[int, Path]]:
        found = (self._folder / pod).glob(f"{app}.*.log")
        return sorted((int(path.name.split(".")[-2], 16), path) for path in found)

    def _read(self, path: Path, at: int) -> bytes:
        """Whole lines, if one of them fits."""
        with path.open("rb") as file:
            file.seek(at)
            raw = file.read(PIECE)
        return raw[: raw.rfind(b"\n") + 1] or raw

    def _copy(self, pod: str, *, rest: bool = False) -> bool:
        """Whether there was anything new."""
        files = self._files(pod, APP)
        end = files[-1][0] + files[-1][1].stat().st_size if files else 0
        if (found := self._next(pod, end)) is None:
            return False
        log, at = found
        with log.open("rb") as file:
            file.seek(at)
            raw = file.read(PIECE)
        last = rest or log.name.endswith(ASIDE)
        whole = raw if last and not raw.count(b"\n") else raw[: raw.rfind(b"\n") + 1]
        if whole and not whole.endswith(b"\n"):
            whole += b"\n"
        if whole:
            self._write(pod, end, whole, files)
        return bool(whole)

    def _next(self, pod: str, end: int) -> tuple[Path, int] | None:
        """The file that is copied from, and how much of it was. One that was put aside comes first,
        until there is nothing new in it."""
        log, name = self._watched[pod], f"log/{pod}"
        if (now := _stat(log)) is None:
            return None
        told = self._ledger.remembered(name)
        begun, inode = (int(word) for word in (told or f"0 {now.st_ino}").split())
        aside = log.with_name(log.name + ASIDE)
        old = _stat(aside) if inode != now.st_ino else None
        if old and old.st_ino == inode and old.st_size > end - begun:
            return aside, end - begun
        if inode != now.st_ino or now.st_size < end - begun:
            begun = end
        if told != (known := f"{begun} {now.st_ino}"):
            self._ledger.remember(name, known)
        return (log, end - begun) if now.st_size > end - begun else None

    def _write(self, pod: str, end: int, whole: bytes, files: list[tuple[int, Path]]) -> None:
        home = self._folder / pod
        if not files or end - files[-1][0] >= self._file_bytes:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            for _, old in files[:-1]:
                old.unlink()
            files = [(end, home / f"{APP}.{end:016x}.log")]
        with files[-1][1].open("ab") as file:
            file.write(whole)
        told = {"pod": pod, "app": APP, "offset": end, "length": len(whole)}
        self._ledger.tell_log(json.dumps(told))
        self._ring()


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
