"""A registry on loopback, of Debian's package `docker-registry`: it asks for a password."""

import asyncio
import base64
import ctypes
import secrets
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from domain.registries import Credentials
from tests.support.load import limit

PROGRAM = "docker-registry"
LACKING = f"NO REGISTRY WAS RUN: {PROGRAM} is not installed. do: apt-get install -y {PROGRAM}"
READY_SECONDS = 20.0

SETTINGS = """version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {folder}/data}}
http: {{addr: "{address}"}}
auth:
  htpasswd: {{realm: test, path: {folder}/htpasswd}}
"""


def program() -> str | None:
    return shutil.which(PROGRAM)


@asynccontextmanager
async def registry(folder: Path) -> AsyncIterator[tuple[str, Credentials]]:
    """Its address, and who is let in."""
    known = Credentials(username="ann", password=secrets.token_urlsafe(12))
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    settings = _prepared(folder, address, known)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program() or PROGRAM, "serve", str(settings), stdout=log, stderr=log
        )
    try:
        await _listens(address, folder / "log")
        yield address, known
    finally:
        process.kill()
        await process.wait()


def _prepared(folder: Path, address: str, known: Credentials) -> Path:
    folder.mkdir()
    (folder / "htpasswd").write_text(f"{known.username}:{_hashed(known.password)}\n")
    settings = folder / "settings.yml"
    settings.write_text(SETTINGS.format(folder=folder, address=address))
    return settings


async def _listens(address: str, log: Path) -> None:
    host, _, port = address.partition(":")
    async with limit(READY_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return


def _hashed(password: str) -> str:
    """In bcrypt, which is all that the registry takes, and which libcrypt can."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    salt = base64.b64encode(secrets.token_bytes(16), altchars=b"./").decode()[:21] + "."
    hashed: bytes = crypt(password.encode(), f"$2y$05${salt}".encode())
    return hashed.decode()
