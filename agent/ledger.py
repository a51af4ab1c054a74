"""The agent's own memory: a small SQLite file, so that it finds everything again after a restart.

What it tells the control plane is written here first, numbered, and dropped once it was taken. All
is written from the loop itself: the file is local, nobody else has it, and no write waits for the
disk to have it for good, so a write takes less than a trip to a thread would."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from uuid import uuid4

from agent.orders import Record
from domain.frozen import Frozen
from domain.happening import Happening, Heard, Place
from domain.pod import Image, Pod

TABLES = """
CREATE TABLE IF NOT EXISTS memory (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS instances (id TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pods (
    id TEXT PRIMARY KEY, garbage INTEGER NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS images (
    id TEXT PRIMARY KEY, used INTEGER NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS happenings (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time_ns INTEGER NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, document TEXT NOT NULL);
"""

PAGE = 1000
OUTBOX = 100_000
"""The most that is kept for a control plane that does not listen; the oldest goes first."""

Kind = Literal["pod", "image", "image_gone", "happening", "log"]


class Letter(Frozen):
    """Something to tell the control plane."""

    number: int
    kind: Kind
    document: str


class Ledger:
    def __init__(self, path: Path | None) -> None:
        """Without a path all of it is forgotten in the end."""
        if path is not None:  # orders are in it, with what their callers keep secret
            path.touch(mode=0o600)
            path.chmod(0o600)
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None)
        for pragma in ("journal_mode=wal", "synchronous=normal"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.executescript(TABLES)
        self.epoch = self.remembered("epoch") or self.remember("epoch", str(uuid4()))

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written inside, or nothing of it."""
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def remembered(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM memory WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def remember(self, name: str, value: str) -> str:
        self._db.execute("INSERT OR REPLACE INTO memory VALUES (?, ?)", (name, value))
        return value

    def forget_memory(self, name: str) -> None:
        self._db.execute("DELETE FROM memory WHERE name = ?", (name,))

    def records(self) -> list[Record]:
        rows = self._db.execute("SELECT document FROM instances ORDER BY id")
        return [Record.model_validate_json(document) for (document,) in rows]

    def keep(self, record: Record) -> None:
        row = (record.instance, record.model_dump_json())
        self._db.execute("INSERT OR REPLACE INTO instances VALUES (?, ?)", row)

    def drop(self, instance: str) -> None:
        self._db.execute("DELETE FROM instances WHERE id = ?", (instance,))

    def pods(self, prefix: str = "") -> list[Pod]:
        rows = self._db.execute(
            "SELECT document FROM pods WHERE id >= ? AND id < ? ORDER BY id", (prefix, prefix + "g")
        )
        return [Pod.model_validate_json(document) for (document,) in rows]

    def tell_pod(self, pod: Pod) -> None:
        document = pod.model_dump_json()
        row = (pod.id, pod.marked_ns, document)
        self._db.execute("INSERT OR REPLACE INTO pods VALUES (?, ?, ?)", row)
        self._post("pod", document)

    def images(self) -> list[Image]:
        rows = self._db.execute("SELECT document FROM images")
        found = [Image.model_validate_json(document) for (document,) in rows]
        return sorted(found, key=lambda image: (image.name, image.version, image.id))

    def unused_images(self, before: int) -> list[str]:
        """Those that nobody has asked for since then, in seconds."""
        rows = self._db.execute("SELECT id FROM images WHERE used < ? ORDER BY used", (before,))
        return [id for (id,) in rows]

    def tell_image(self, image: Image, now: int) -> bool:
        """Whether it is new here."""
        if self._db.execute("UPDATE images SET used = ? WHERE id = ?", (now, image.id)).rowcount:
            return False
        document = image.model_dump_json()
        self._db.execute("INSERT INTO images VALUES (?, ?, ?)", (image.id, now, document))
        self._post("image", document)
        return True

    def tell_image_gone(self, id: str) -> None:
        if self._db.execute("DELETE FROM images WHERE id = ?", (id,)).rowcount:
            self._post("image_gone", id)

    def tell(self, happening: Happening) -> None:
        document = happening.model_dump_json()
        row = (happening.time_ns, document)
        self._db.execute("INSERT INTO happenings (time_ns, document) VALUES (?, ?)", row)
        self._post("happening", document)

    def tell_log(self, document: str) -> None:
        self._post("log", document)

    def happened(self, after: int, since_ns: int) -> list[Heard]:
        rows = self._db.execute(
            "SELECT number, document FROM happenings WHERE number > ? AND time_ns > ?"
            " ORDER BY number LIMIT ?",
            (after, since_ns, PAGE),
        )
        return [
            Heard(happening=Happening.model_validate_json(document), place=Place(number=number))
            for number, document in rows
        ]

    def last(self) -> int:
        row = self._db.execute("SELECT max(number) FROM happenings").fetchone()
        return int(row[0] or 0)

    def letters(self, most: int) -> Sequence[Letter]:
        rows = self._db.execute(
            "SELECT number, kind, document FROM outbox ORDER BY number LIMIT ?", (most,)
        )
        return [Letter(number=number, kind=kind, document=text) for number, kind, text in rows]

    def taken(self, number: int) -> None:
        self._db.execute("DELETE FROM outbox WHERE number <= ?", (number,))

    def forget(self, before_ns: int) -> list[str]:
        """Drop what is older, and return whose logs may go."""
        garbage = "FROM pods WHERE garbage > 0 AND garbage < ?"
        gone = [id for (id,) in self._db.execute(f"SELECT id {garbage}", (before_ns,))]
        self._db.execute(f"DELETE {garbage}", (before_ns,))
        self._db.execute("DELETE FROM happenings WHERE time_ns < ?", (before_ns,))
        newest = self._db.execute("SELECT max(number) FROM outbox").fetchone()[0] or 0
        self._db.execute("DELETE FROM outbox WHERE number <= ?", (newest - OUTBOX,))
        return gone

    def _post(self, kind: Kind, document: str) -> None:
        self._db.execute("INSERT INTO outbox (kind, document) VALUES (?, ?)", (kind, document))
