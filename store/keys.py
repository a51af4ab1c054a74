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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import TypeAlias

from domain.disk import trouble
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
        raise _unusable(path, error) from error


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
    try:
        with _beside(path, _written({**keys, name: os.urandom(KEY_BYTES)})) as fresh:
            fresh.replace(path)
    except OSError as error:
        raise _unusable(path, error) from error


def _written(keys: Keys) -> bytes:
    lines = (f"{name} {base64.b64encode(key).decode()}\n" for name, key in keys.items())
    return "".join(lines).encode()


def _made(path: Path) -> bytes:
    """Two processes may start at once: the file appears whole, and the first one wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _beside(path, os.urandom(KEY_BYTES)) as fresh, suppress(FileExistsError):
        os.link(fresh, path)
    return path.read_bytes()


@contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """A file with this content in the same folder, for its owner alone. It is gone in the end,
    whatever fails; one that a crash leaves is in nobody's way, since no two have one name."""
    number, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def _unusable(path: Path, error: Exception) -> Unavailable:
    if (found := trouble(error, f"the key file {path}")) is not None:
        return found
    return Unavailable(
        f"the key file {path} cannot be used: {error}",
        reason="KEY_UNAVAILABLE",
        do=f"make {path} readable for this user, and its folder writable, or name another as "
        "WINDLASS_KEY_FILE",
    )
