"""Files sealed piece by piece, so that what is sealed need never be in memory whole, nor lie
anywhere in the clear.

    {"windlass": "sealed-1", "name": …, "sealed_with": "file-1", "salt": …}   one line
    a piece, a piece, …, the last piece            1 MiB each, the last one shorter, each + 16 bytes

Every file has a key of its own, made of the key that secrets are sealed with and of its salt. A
piece is AES-256-GCM; its nonce counts the pieces and tells the last, and the first line goes in as
what is authenticated. So pieces cannot be swapped, left out or cut off, nor the line changed."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from pydantic import BaseModel, ValidationError

from domain.errors import Failed, Invalid
from store.sealing import Seal

PIECE_BYTES = 1024 * 1024

_FORM = "sealed-1"
_TAG_BYTES = 16
_SALT_BYTES = 32
_LONGEST_LINE = 4096


class Label(BaseModel):
    """The first line: what is in the clear."""

    windlass: str = _FORM
    name: str
    sealed_with: str
    salt: str


class SealingFile:
    """A sealed file being written: `write` as often as there is something, `finish` once."""

    def __init__(self, file: BinaryIO, seal: Seal, name: str) -> None:
        salt = os.urandom(_SALT_BYTES)
        label = Label(name=name, sealed_with=seal.name, salt=base64.b64encode(salt).decode())
        self._file = file
        self._line = label.model_dump_json().encode() + b"\n"
        self._cipher = seal.derived(salt, _FORM, seal.name)
        self._held = b""
        self._number = 0
        file.write(self._line)

    def write(self, data: bytes) -> None:
        self._held += data
        while len(self._held) > PIECE_BYTES:
            self._put(self._held[:PIECE_BYTES], last=False)
            self._held = self._held[PIECE_BYTES:]

    def finish(self) -> None:
        """Write what is left, and that nothing follows."""
        self._put(self._held, last=True)

    def _put(self, piece: bytes, *, last: bool) -> None:
        nonce = _nonce(self._number, last=last)
        self._file.write(self._cipher.encrypt(nonce, piece, self._line))
        self._number += 1


def opened(file: BinaryIO, seal: Seal) -> Iterator[bytes]:
    """The pieces of a sealed file. A piece is given once it has proved to be what was sealed; only
    after the last is it sure that none is missing."""
    line = file.readline(_LONGEST_LINE)
    label = _label(line)
    cipher = seal.derived(base64.b64decode(label.salt), _FORM, label.sealed_with)
    number, sealed = 0, file.read(PIECE_BYTES + _TAG_BYTES)
    while sealed:
        following = file.read(PIECE_BYTES + _TAG_BYTES)
        try:
            yield cipher.decrypt(_nonce(number, last=not following), sealed, line)
        except (InvalidTag, ValueError) as error:
            raise _spoilt(label) from error
        number, sealed = number + 1, following
    if not number:
        raise _spoilt(label)


def unseal(source: Path, target: Path, seal: Seal) -> int:
    """Write what is sealed in `source` to `target`, a new file that nobody else can read, and say
    how long it is. If it does not open to its end there is no target."""
    try:
        with source.open("rb") as file:
            made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(made, "wb") as plain:
                    return sum(plain.write(piece) for piece in opened(file, seal))
            except BaseException:
                target.unlink()
                raise
    except OSError as error:
        raise Invalid(
            f"{error.filename or target}: {error.strerror or error}",
            do="name a backup that is there, and an archive that is not",
        ) from error


def _label(line: bytes) -> Label:
    try:
        label = Label.model_validate(json.loads(line))
        base64.b64decode(label.salt, validate=True)
    except (ValueError, ValidationError):
        label = Label(windlass="", name="", sealed_with="", salt="")
    if label.windlass != _FORM:
        raise Invalid(
            "this is no file that Windlass has sealed",
            reason="NOT_SEALED",
            do="name a file from the directory WINDLASS_BACKUPS",
        )
    return label


def _spoilt(label: Label) -> Failed:
    return Failed(
        f"{label.name} does not open with key {label.sealed_with}, or it is cut short or changed",
        subject=label.name,
        reason="WRONG_KEY",
        do="use the key file it was sealed with; if it was that one, use another backup",
    )


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
