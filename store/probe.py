"""A write that changes nothing but itself: whether the database takes writes at all."""

import asyncio
import os
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile

from sqlalchemy import LargeBinary
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapped, mapped_column

from domain.disk import trouble
from domain.errors import Unavailable
from store.engine import Store, transaction
from store.rows import Row, now

PROBE_BYTES = 64 * 1024
FILE_BYTES = 256 * 1024
"""Beside SQLite's file: pages that it has already take rows after the disk is full."""


class ProbeRow(Row):
    """What was written last to find out whether the database takes writes."""

    __tablename__ = "probes"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    written: Mapped[datetime]
    filler: Mapped[bytes] = mapped_column(LargeBinary)


class Probe(Store):
    async def write(self) -> None:
        """Write, and commit. Unavailable says why that cannot be done."""
        path = self._database.url.database or ""
        if self._database.is_sqlite and path not in ("", ":memory:"):
            await asyncio.to_thread(_write_beside, Path(path).parent)
        await self._write()

    @transaction
    async def _write(self, session: AsyncSession) -> None:
        await session.merge(ProbeRow(number=1, written=now(), filler=os.urandom(PROBE_BYTES)))


def _write_beside(folder: Path) -> None:
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(FILE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise trouble(error, "the database") or Unavailable(
            f"the folder of the database cannot be written: {error.strerror}",
            reason="DATABASE_UNAVAILABLE",
            do=f"make {folder} writable for this user",
        ) from error
