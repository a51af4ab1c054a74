"""The appc schema (0.8.11) as far as manifests of images and pods need it: rkt's clients load them
with it, and it refuses a whole manifest for one name, label or user that it does not know."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from domain.pod import Pairs

IDENTIFIER = re.compile(r"[a-z0-9]+([-._~/][a-z0-9]+)*")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HASH = re.compile(r"sha512-[0-9a-f]+")
DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+]\d\d:\d\d)")
URL = re.compile(r"https?://\S+")

NO_IMAGE = f"sha512-{'0' * 64}"
"""The id of an image that could not be had: nothing has this hash."""

UNNAMED = "unnamed"

CHECKED = {"created": DATE, "homepage": URL, "documentation": URL}
"""Annotations whose values the schema checks."""

ARCHITECTURES = {
    "amd64": "amd64",
    "386": "i386",
    "arm64": "aarch64",
    "arm": "armv7l",
    "i386": "i386",
    "aarch64": "aarch64",
}
"""What appc calls those of OCI. It knows no others of Linux that OCI does."""


def identifier(text: str) -> str:
    """The text as an ACIdentifier: other characters become `_`, and separators never follow on one
    another."""
    clean = re.sub(r"[^a-z0-9\-._~/]", "_", text.lower())
    return re.sub(r"([-._~/])[-._~/]+", r"\1", clean).strip("-._~/") or UNNAMED


def image_hash(id: str) -> str:
    return id if HASH.fullmatch(id) else NO_IMAGE


def labels(pairs: Pairs) -> list[dict[str, str]]:
    """Each name once. A system or an architecture that the schema does not know is left out."""
    told = _once(pairs)
    told.pop("name", None)
    if told.get("os") != "linux":
        told.pop("os", None)
    architecture = ARCHITECTURES.get(told.pop("arch", ""))
    if architecture and "os" in told:
        told["arch"] = architecture
    return _listed(told)


def annotations(pairs: Pairs) -> list[dict[str, str]]:
    """Each name once. What the schema would refuse for its value is left out."""
    told = _once(pairs)
    for name, pattern in CHECKED.items():
        if name in told and not pattern.fullmatch(told[name]):
            del told[name]
    return _listed(told)


def app(
    command: Sequence[str],
    environment: Iterable[tuple[str, str]],
    *,
    user: str = "",
    folder: str = "",
) -> dict[str, Any]:
    """An app. `user` is OCI's, which may name a group as well."""
    who, _, group = user.partition(":")
    variables = {name: value for name, value in environment if VARIABLE.fullmatch(name)}
    told: dict[str, Any] = {
        "exec": list(command),
        "user": who or "0",
        "group": group or "0",
        "environment": _listed(variables),
    }
    if folder.startswith("/"):
        told["workingDirectory"] = folder
    return told


def _once(pairs: Pairs) -> dict[str, str]:
    """By their clean names. The first of a name counts, as it does everywhere."""
    told: dict[str, str] = {}
    for name, value in pairs:
        told.setdefault(identifier(name), value)
    return told


def _listed(told: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in told.items()]
