"""The three kinds of patch. Each returns a new object and leaves what it was given alone."""

import copy
from collections.abc import Mapping
from typing import Any

from sim.kubernetes.errors import Body, StatusError, malformed

MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""The lists whose entries are told apart by a field, by the list's name. A container's ports and a
service's share theirs. Every other list is replaced as a whole, a node's taints too."""

_SETS = frozenset({"finalizers"})
_ORDER, _PRIMITIVES, _RETAIN = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys"


def merge_key(field: str, *lists: Any) -> str | None:
    """The field that tells the entries of these lists apart, if they are of such a kind."""
    entries = [entry for known in lists if isinstance(known, list) for entry in known]
    for key in MERGE_KEYS.get(field, ()):
        if entries and all(isinstance(entry, dict) and key in entry for entry in entries):
            return key
    return None


def merged(body: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(body) if isinstance(body, dict) else {}
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        else:
            result[field] = merged(result.get(field), value)
    return result


def strategic(body: Any, patch: Any) -> Any:
    """A strategic merge patch, for the lists in `MERGE_KEYS`."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {field: copy.deepcopy(patch[field]) for field in patch if field != "$patch"}
    result = dict(body) if isinstance(body, dict) else {}
    if _RETAIN in patch:
        result = {field: result[field] for field in result if field in patch[_RETAIN]}
    for field, value in patch.items():
        if field.startswith(_PRIMITIVES):
            name = field.removeprefix(_PRIMITIVES)
            result[name] = [entry for entry in result.get(name) or () if entry not in value]
        elif field.startswith("$"):
            continue
        elif value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            result.pop(field, None)
        elif isinstance(value, list):
            result[field] = _merged_list(field, result.get(field) or [], value)
        else:
            result[field] = strategic(result.get(field), value)
    return _ordered(result, patch)


def _merged_list(field: str, old: list[Any], patch: list[Any]) -> list[Any]:
    if field in _SETS:
        return old + [entry for entry in patch if entry not in old]
    changes = [entry for entry in patch if entry != {"$patch": "replace"}]
    key = merge_key(field, old, changes)
    if key is None or len(changes) < len(patch):
        return copy.deepcopy(changes)
    entries = {entry[key]: entry for entry in old}
    for change in changes:
        if change.get("$patch") == "delete":
            entries.pop(change[key], None)
        else:
            entries[change[key]] = strategic(entries.get(change[key]), change)
    return list(entries.values())


def _ordered(result: Body, patch: Body) -> Body:
    """Lists in the order the patch asks for; what it does not mention comes last."""
    for field in patch:
        name = field.removeprefix(_ORDER)
        if name == field or not isinstance(result.get(name), list):
            continue
        key = merge_key(name, result[name])
        wanted = [entry[key] if key else entry for entry in patch[field]]
        places = {value: place for place, value in enumerate(wanted)}
        result[name] = sorted(
            result[name],
            key=lambda entry: places.get(entry[key] if key else entry, len(places)),
        )
    return result


def json_patched(body: Body, operations: Any) -> Body:
    """A JSON patch. One operation that fails undoes them all."""
    if not isinstance(operations, list):
        raise malformed("a JSON patch is a list of operations")
    result: Any = copy.deepcopy(body)
    try:
        for operation in operations:
            result = _operated(result, operation)
    except (LookupError, TypeError, ValueError) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise StatusError(422, "Invalid", message) from error
    if not isinstance(result, dict):
        raise malformed("the patch leaves no object")
    return result


def _operated(body: Any, operation: Body) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add" | "replace" | "test":
            value = copy.deepcopy(operation["value"])
        case "move" | "copy":
            value = copy.deepcopy(_at(body, _pointer(operation["from"])))
        case "remove":
            value = None
        case other:
            raise ValueError(f"no such operation: {other}")
    match operation["op"]:
        case "test":
            if _at(body, path) != value:
                raise ValueError(f"testing path {operation['path']} failed")
            return body
        case "remove":
            _remove(body, path)
            return body
        case "replace":
            _at(body, path)
            if path and isinstance(_at(body, path[:-1]), list):
                _remove(body, path)
        case "move":
            _remove(body, _pointer(operation["from"]))
    return _added(body, path, value)


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(body: Any, path: list[str]) -> Any:
    for part in path:
        body = body[int(part)] if isinstance(body, list) else body[part]
    return body


def _remove(body: Any, path: list[str]) -> None:
    parent = _at(body, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


def _added(body: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _at(body, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else int(path[-1]), value)
    else:
        parent[path[-1]] = value
    return body
