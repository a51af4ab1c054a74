"""What the mons say, asked by Ceph's own program: it needs no manager."""

import json
from pathlib import Path
from typing import Any

from clients.ceph.program import Program
from clients.ceph.session import unreadable
from domain.storage_mons import Word, word

DEADLINE_SECONDS = 9.0
"""The watch waits for it, and asks again in a few seconds."""


class ProgramMons:
    def __init__(self, conf: Path, keyring: Path) -> None:
        self._program = Program(conf, keyring, deadline_seconds=DEADLINE_SECONDS)

    async def word(self, *, with_osds: bool = False) -> Word:
        status = await self._program.must("status")
        dump = await self._program.must("osd", "dump") if with_osds else b"null"
        try:
            return word(_document(status), _document(dump))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise unreadable("status", f"a cluster's health ({error!r:.100})") from error


def _document(said: bytes) -> Any:
    return json.loads(said)
