"""Kubeconfig documents, as dictionaries: whoever reads or writes the YAML calls these.

Nothing that is handed in is changed, and what we do not know we keep."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from domain.errors import Invalid

Document: TypeAlias = dict[str, Any]
"""A kubeconfig as a YAML or JSON parser returns it."""

_LISTS = ("clusters", "contexts", "users")
_EMPTY: Document = {"apiVersion": "v1", "kind": "Config", "preferences": {}}


def rewritten(document: Mapping[str, Any], *, cluster: str, server: str) -> Document:
    """The current context alone, everything in it named after `cluster`, leading to `server`.

    kubeadm calls every cluster `kubernetes` and every user `kubernetes-admin`, so two of its files
    in one would be one cluster. Credentials and the certificate authority are kept."""
    context = _named(document, "contexts", _text(document, "current-context"))
    reached = _named(document, "clusters", _text(context, "cluster"))
    user = _named(document, "users", _text(context, "user"))
    whom = f"{cluster}-admin"
    return {
        **_EMPTY,
        "clusters": [{"name": cluster, "cluster": {**reached, "server": server}}],
        "contexts": [{"name": cluster, "context": {**context, "cluster": cluster, "user": whom}}],
        "users": [{"name": whom, "user": user}],
        "current-context": cluster,
    }


def merged(
    into: Mapping[str, Any], addition: Mapping[str, Any], *, switch: bool = False
) -> Document:
    """`into` with the entries of `addition`, which replace those of the same names.

    The current context stays what it was, unless there was none or `switch` asks for it."""
    document = {**_EMPTY, **into}
    for field in _LISTS:
        document[field] = _replaced(_entries(into, field), _entries(addition, field))
    if switch or not document.get("current-context"):
        document["current-context"] = addition.get("current-context", "")
    return document


def _replaced(old: list[Document], new: list[Document]) -> list[Document]:
    """`old` in its order with what `new` says of the same names, then the rest of `new`."""
    fresh = {entry["name"]: entry for entry in new}
    return [fresh.pop(entry["name"], entry) for entry in old] + list(fresh.values())


def _named(document: Mapping[str, Any], field: str, name: str) -> Document:
    for entry in _entries(document, field):
        if entry["name"] == name and isinstance(body := entry.get(field.removesuffix("s")), dict):
            return body
    raise Invalid(f"the kubeconfig has no entry {name!r} under {field}", subject=name)


def _entries(document: Mapping[str, Any], field: str) -> list[Document]:
    """The entries of one of the three lists. kubectl writes an empty one as null."""
    entries = document.get(field) or []
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries
    ):
        raise Invalid(f"{field} of the kubeconfig is not a list of named entries", subject=field)
    return entries


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not value:
        raise Invalid(f"the kubeconfig has no {field}", subject=field)
    return value
