"""What a site remembers when its process is killed, as metal and disks would.

An append-only file of JSON lines, one per change of a record, written before the change is
answered. Nothing is flushed to disk by force: it survives the process, not the machine."""

import json
import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

Kept = TypeVar("Kept", bound="Record")


class Record(BaseModel):
    """Something a site remembers. Changed in place, then kept again."""


class Ledger:
    """Records by kind and id. Without a path it remembers nothing beyond its process."""

    def __init__(self, path: Path | None = None) -> None:
        self._lines: dict[tuple[str, str], str] = {}
        self._file: int | None = None
        if path is None:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            self._read(path)
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text("".join(line + "\n" for line in self._lines.values()))
        fresh.replace(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _read(self, path: Path) -> None:
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # the last line, cut off by the kill: it was never answered
                continue
            key = (entry["kind"], entry["id"])
            if entry["record"] is None:
                self._lines.pop(key, None)
            else:
                self._lines[key] = line

    def keep(self, kind: str, identity: str, record: Record) -> None:
        """Remember `record` as it is now."""
        line = json.dumps({"kind": kind, "id": identity, "record": record.model_dump(mode="json")})
        self._lines[kind, identity] = line
        self._append(line)

    def drop(self, kind: str, identity: str) -> None:
        """Forget a record. Forgetting what is not there changes nothing."""
        if self._lines.pop((kind, identity), None) is not None:
            self._append(json.dumps({"kind": kind, "id": identity, "record": None}))

    def recall(self, kind: str, shape: type[Kept]) -> dict[str, Kept]:
        """Every record of a kind, by id."""
        return {
            identity: shape.model_validate(json.loads(line)["record"])
            for (known, identity), line in self._lines.items()
            if known == kind
        }

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: str) -> None:
        if self._file is not None:
            os.write(self._file, line.encode() + b"\n")
