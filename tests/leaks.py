"""Finds secrets in what was written, in whichever of the usual forms they were written."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

SHORTEST = 12
"""What is shorter may be there by chance."""

PRIVATE = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)\n-----END", re.DOTALL)


def forms(secret: bytes) -> set[bytes]:
    """As it is; in hexadecimal digits; and as the middle of any base64, wherever it begins."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret).rstrip(b"=")
        # What shares a digit with its neighbours is told by them, too.
        middle = whole[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]
        found |= {middle, middle.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def pieces(secret: bytes) -> Iterator[bytes]:
    """What of a secret may be looked for. Of keys the lines, since they are folded in many ways;
    the first ones of a key tell its kind and its public half."""
    if blocks := PRIVATE.findall(secret):
        for block in blocks:
            lines = block.split(b"\n")
            yield from (line for line in lines[len(lines) // 2 :] if len(line) >= SHORTEST)
    elif secret.startswith(b"apiVersion:") or b"client-key-data" in secret:
        for user in yaml.safe_load(secret)["users"]:
            kept = user["user"]["client-key-data"]
            yield kept.encode()
            yield from pieces(base64.b64decode(kept))
    elif len(secret) >= SHORTEST:
        yield secret


def found(secrets: Mapping[str, bytes], places: Mapping[str, bytes]) -> list[str]:
    """Which secret is in which place, a line for each."""
    return [
        f"{name} is in {place}"
        for name, secret in secrets.items()
        for place, written in places.items()
        if any(form in written for piece in pieces(secret) for form in forms(piece))
    ]


def written(folder: Path, patterns: Iterable[str]) -> dict[str, bytes]:
    """The files of a folder that are named so, by their names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for pattern in patterns
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    }
