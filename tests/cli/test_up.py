"""What `windlass up` does with its parts, without a whole site."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import parts
from cli.complaints import Complaint
from cli.parts import Part, Site
from cli.up import refuse_encryption
from settings import Settings
from store.engine import Database
from tests.support.load import limit
from worker import Crew

WAIT_SECONDS = 120.0
"""Starting a Python takes its time on a busy machine."""


def part(folder: Path, name: str, code: str) -> Part:
    """A process that says its pid and then does this."""
    script = (
        f"import os, pathlib; pathlib.Path({str(folder / name)!r}).write_text(str(os.getpid()))"
    )

    async def ready() -> bool:
        return (folder / name).exists()

    return Part(name, [sys.executable, "-c", f"{script}\n{code}"], ready)


async def until(condition: Callable[[], bool]) -> None:
    async with limit(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def pid(folder: Path, name: str, *, other: int = 0) -> int:
    """Of the process that runs as that part, once it is another than before."""
    async with limit(30):
        while True:
            path = folder / name
            said = path.read_text() if path.exists() else ""
            if said.isdigit() and int(said) != other:
                return int(said)
            await asyncio.sleep(0.02)


async def test_a_part_that_dies_is_started_again_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(parts, "READY_SECONDS", WAIT_SECONDS)
    site, said = Site(tmp_path), list[str]()
    for name in ("api", "worker"):
        await site.start(part(tmp_path, name, "import time\ntime.sleep(1000)"))
    tending = asyncio.create_task(site.tend(said.append))
    try:
        api, worker = await pid(tmp_path, "api"), await pid(tmp_path, "worker")
        os.kill(api, signal.SIGKILL)
        again = await pid(tmp_path, "api", other=api)
        assert again != api
        await until(lambda: "api is up again" in said)
        assert said[0].startswith("api ended with exit code -9 (read ")
        assert "it is started again in 0.05 s" in said[0]
        assert await pid(tmp_path, "worker") == worker
        assert site.ends == 1
    finally:
        tending.cancel()
        await asyncio.wait([tending])
        await site.stop()


async def test_a_part_that_ends_again_and_again_is_started_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(parts, "MOST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(parts, "READY_SECONDS", WAIT_SECONDS)
    site, said = Site(tmp_path), list[str]()
    await site.start(part(tmp_path, "worker", "raise SystemExit(3)"))
    tending = asyncio.create_task(site.tend(said.append))
    try:
        await until(lambda: site.ends >= 3)
        pauses = [line.rpartition(" in ")[2] for line in said if "exit code 3" in line]
        assert pauses[:3] == ["0.05 s", "0.1 s", "0.1 s"]
    finally:
        tending.cancel()
        await asyncio.wait([tending])
        await site.stop()


def test_up_refuses_encryption_at_once_with_the_settings_that_ask_for_it() -> None:
    with pytest.raises(Complaint) as caught:
        refuse_encryption(Settings(tls={"certificate": "cert.pem", "key": "key.pem"}))
    assert "WINDLASS_TLS__CERTIFICATE, WINDLASS_TLS__KEY is set" in caught.value.message
    assert caught.value.do
    refuse_encryption(Settings())


async def test_a_worker_of_the_edge_queues_alone_wants_no_key_for_maas(tmp_path: Path) -> None:
    settings = Settings(
        state=tmp_path,
        database=f"sqlite+aiosqlite:///{tmp_path}/windlass.db",
        ceph={"urls": ()},
    )
    assert not (tmp_path / "maas.key").exists()
    database = Database(settings.database)
    crew = Crew(settings, database)
    assert crew.hands(["instances"])
    assert crew.books()
    assert crew.beside() == []
    await crew.close()
    await database.close()
