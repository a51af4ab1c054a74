"""Copies of clusters, sealed, in a directory: one folder per cluster, one file per copy."""

import asyncio
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from domain.errors import Failed
from domain.ports import Snapshot
from store.sealed_files import SealingFile
from store.sealing import Seal

SUFFIX = ".sealed"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PARTS_SECONDS = 24 * 3600.0
"""What a writer that died has left is cleared away when it is this old."""


class SealedBackups:
    """`domain.ports.Backups`. Workers may share the directory: a file appears whole or not at
    all."""

    def __init__(self, directory: Path, seal: Seal, *, most: int) -> None:
        """Of every cluster the newest `most` copies are kept."""
        self._directory = directory
        self._seal = seal
        self._most = most

    async def keep(self, snapshot: Snapshot, pieces: AsyncIterator[bytes]) -> str:
        """Seal the pieces as they come, and say where they lie."""
        slot = snapshot.machine.slot
        folder = self._directory / f"{slot.cluster}-{slot.cluster_uid[:8]}"
        path = folder / f"{snapshot.name}{SUFFIX}"
        if not _NAME.fullmatch(snapshot.name) or not _NAME.fullmatch(folder.name):
            raise Failed(f"{snapshot.name!r} of {slot.cluster!r} cannot be a backup's name")
        try:
            part = await asyncio.to_thread(_begun, path)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            await self._write(part, snapshot, pieces)
            await asyncio.to_thread(_put, part, path)
            await asyncio.to_thread(self._tidy, path)
        except OSError as error:
            raise _unwritable(path, error) from error
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)
        return str(path)

    async def _write(self, part: Path, snapshot: Snapshot, pieces: AsyncIterator[bytes]) -> None:
        slot = snapshot.machine.slot
        name = f"{slot.cluster}/{slot.cluster_uid}/{snapshot.name} of {slot.name}"
        file = await asyncio.to_thread(part.open, "wb")
        try:
            sealing = await asyncio.to_thread(SealingFile, file, self._seal, name)
            async for piece in pieces:
                await asyncio.to_thread(sealing.write, piece)
            await asyncio.to_thread(sealing.finish)
            await asyncio.to_thread(file.flush)
            await asyncio.to_thread(os.fsync, file.fileno())
        finally:
            await asyncio.to_thread(file.close)

    def _tidy(self, path: Path) -> None:
        """Let the oldest go, and what dead writers have left. The one just written stays."""
        kept = sorted(path.parent.glob(f"*{SUFFIX}"), key=_age, reverse=True)
        others = [each for each in kept if each != path]
        stale = [each for each in path.parent.glob(".*.part") if _is_stale(each)]
        for each in (*others[max(self._most - 1, 0) :], *stale):
            each.unlink(missing_ok=True)


def _begun(path: Path) -> Path:
    """An empty file beside the one that is to be, which nobody else can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return part


def _put(part: Path, path: Path) -> None:
    """Give a file its name, and make both last."""
    part.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _age(path: Path) -> float:
    """When it was written, on the file system's clock; before everything if it is gone."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def _is_stale(part: Path) -> bool:
    return _age(part) < time.time() - _PARTS_SECONDS


def _unwritable(path: Path, error: OSError) -> Failed:
    return Failed(
        f"the backup {path} cannot be written: {error.strerror or error}",
        subject=path.name,
        reason="BACKUP_UNWRITABLE",
        do="make room or give rights there, or name another directory as WINDLASS_BACKUPS; then "
        "ask for the same again",
    )
