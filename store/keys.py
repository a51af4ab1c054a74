"""The keys that everything is sealed with: where they lie, and how they are written.

    file-1 q83vEjRW…          one a line, by name, 32 bytes in base64
    2027-01 mHd2…             the first is used until another is chosen

A file of 32 bytes is a single key, called `file-1`. They come from a file or from a command, which
prints the same; whatever is asked is asked again when a name turns up that is not known."""

import base64
import binascii
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from domain.errors import AlreadyExists, Invalid, Unavailable

KEY_BYTES = 32
FIRST_NAME = "file-1"
"""What a key is called that lies alone in its file."""

COMMAND_SECONDS = 10.0

Keys: TypeAlias = Mapping[str, bytes]
Source: TypeAlias = Callable[[], Keys]
"""Where keys come from. Unavailable, if there are none there."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")


def source(path: Path, command: Sequence[str] = ()) -> Source:
    """Keys from what a command prints, or else from a file."""
    return (lambda: from_command(command)) if command else (lambda: from_file(path))


def from_file(path: Path) -> Keys:
    """Read the keys; make one, readable by its owner alone, if there is no file yet."""
    try:
        return parsed(_made(path) if not path.exists() else path.read_bytes())
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"the key file {path} cannot be used: {error}",
            reason="KEY_UNAVAILABLE",
            do=f"make {path} readable for this user, or name another as WINDLASS_KEY_FILE",
        ) from error


def from_command(command: Sequence[str]) -> Keys:
    """What a command prints. What it says besides may hold secrets, and is not repeated."""
    try:
        done = subprocess.run(  # noqa: S603 (the operator says which)
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS
        )
        if done.returncode:
            raise ValueError(f"it ended with {done.returncode}")
        return parsed(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = "it took too long" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise Unavailable(
            f"the command {command[0]} gave no keys: {why}",
            reason="KEY_UNAVAILABLE",
            do="run what WINDLASS_KEY_COMMAND says as this user: it prints NAME BASE64, a line "
            "for each key",
        ) from error


def parsed(content: bytes) -> Keys:
    """Keys as they are written. ValueError if they are not."""
    if len(content) == KEY_BYTES:
        return {FIRST_NAME: content}
    keys: dict[str, bytes] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        name, _, encoded = line.decode("ascii", "replace").strip().partition(" ")
        if not name:
            continue
        try:
            key = base64.b64decode(encoded.strip(), validate=True)
        except binascii.Error:
            key = b""
        if not _NAME.fullmatch(name) or len(key) != KEY_BYTES or name in keys:
            raise ValueError(f"line {number} is no name and {KEY_BYTES} bytes in base64")
        keys[name] = key
    if not keys:
        raise ValueError("it has no key")
    return keys


def add(path: Path, name: str) -> None:
    """Put one more key into a file, the last, which nobody uses yet."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of a key",
            do="use up to 32 small letters, digits, dots and dashes",
        )
    keys = from_file(path)
    if name in keys:
        raise AlreadyExists(
            f"{path} has a key {name} already", subject=name, do="choose another name"
        )
    fresh = _beside(path)
    _write(fresh, _written({**keys, name: os.urandom(KEY_BYTES)}))
    fresh.replace(path)


def _written(keys: Keys) -> bytes:
    lines = (f"{name} {base64.b64encode(key).decode()}\n" for name, key in keys.items())
    return "".join(lines).encode()


def _made(path: Path) -> bytes:
    """Two processes may start at once: the file appears whole, and the first one wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = _beside(path)
    _write(fresh, os.urandom(KEY_BYTES))
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
