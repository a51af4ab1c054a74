"""Server-side apply: whoever applies a field owns it, and takes it away by leaving it out.

Only appliers own fields here; the API itself also notes who changed one by other means. Lists are
told apart as in `patches`."""

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from sim.kubernetes.errors import Body, cause, contested
from sim.kubernetes.patches import merge_key

Path: TypeAlias = tuple[str, ...]
"""A field as managedFields spell it, `f:spec` or `k:{"name":"web"}`, from the outside in."""

_ITSELF = "."
_UNOWNED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata", "f:creationTimestamp"),
        ("f:metadata", "f:generation"),
        ("f:metadata", "f:managedFields"),
        ("f:metadata", "f:name"),
        ("f:metadata", "f:namespace"),
        ("f:metadata", "f:resourceVersion"),
        ("f:metadata", "f:uid"),
    }
)


def applied(live: Body | None, config: Body, *, manager: str, force: bool, time: str) -> Body:
    """`live` as `config` wants it, with its managers. Fields of other appliers are Conflict unless
    `force` takes them over."""
    live = live or {}
    owned = {
        entry["manager"]: frozenset(_paths(entry["fieldsV1"]))
        for entry in live.get("metadata", {}).get("managedFields") or ()
    }
    before, now = owned.pop(manager, frozenset()), frozenset(_leaves(config))
    contest = {
        other: {path for path in now & paths if _value(live, path) != _value(config, path)}
        for other, paths in owned.items()
    }
    if causes := list(_causes(contest)):
        if not force:
            raise contested(causes)
        owned = {other: paths - contest[other] for other, paths in owned.items()}
    result: Body = _merged(live, config)
    for path in sorted(before - now - frozenset().union(*owned.values()), key=_whole_entries_first):
        result = _without(result, path)
    times = {
        entry["manager"]: entry["time"]
        for entry in live.get("metadata", {}).get("managedFields") or ()
    }
    if before != now or manager not in times:
        times[manager] = time
    owned[manager] = now
    result["metadata"] = result["metadata"] | {
        "managedFields": [
            _entry(other, times[other], config["apiVersion"], paths)
            for other, paths in sorted(owned.items())
            if paths
        ]
    }
    return result


def _whole_entries_first(path: Path) -> tuple[bool, int]:
    """An entry that has lost its key could not be found again."""
    return path[-1] != _ITSELF, -len(path)


def _causes(contest: dict[str, set[Path]]) -> Iterator[Body]:
    for other, paths in contest.items():
        for path in sorted(paths):
            field = "".join(
                f".{part[2:]}" if part.startswith("f:") else f"[{part[2:]}]" for part in path
            )
            yield cause("FieldManagerConflict", f'conflict with "{other}"', field)


def _entry(manager: str, time: str, api_version: str, paths: Iterable[Path]) -> Body:
    fields: Body = {}
    for path in sorted(paths):
        place = fields
        for part in path:
            place = place.setdefault(part, {})
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _paths(fields: Body, above: Path = ()) -> Iterator[Path]:
    for part, below in fields.items():
        if below:
            yield from _paths(below, (*above, part))
        else:
            yield (*above, part)


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every field of a configuration that can be owned."""
    if path in _UNOWNED:
        return
    if isinstance(value, dict) and value:
        for field, below in value.items():
            key = merge_key(field, below)
            if key is None:
                yield from _leaves(below, (*path, f"f:{field}"))
                continue
            for entry in below:
                inner = (*path, f"f:{field}", _item(key, entry))
                yield (*inner, _ITSELF)
                yield from _leaves(entry, inner)
    else:
        yield path


def _item(key: str, entry: Body) -> str:
    return "k:" + json.dumps({key: entry[key]}, separators=(",", ":"))


def _merged(live: Any, config: Any) -> Any:
    if not isinstance(config, dict):
        return copy.deepcopy(config)
    result = dict(live) if isinstance(live, dict) else {}
    for field, value in config.items():
        old = result.get(field)
        key = merge_key(field, old, value)
        if key is None or not isinstance(value, list):
            result[field] = _merged(old, value)
            continue
        entries = {entry[key]: entry for entry in old or ()}
        for entry in value:
            entries[entry[key]] = _merged(entries.get(entry[key]), entry)
        result[field] = list(entries.values())
    return result


def _step(body: Any, part: str) -> Any:
    """One field further in, None where there is nothing."""
    if part.startswith("f:") and isinstance(body, dict):
        return body.get(part[2:])
    if part.startswith("k:") and isinstance(body, list):
        return next((entry for entry in body if _is(entry, part)), None)
    return body if part == _ITSELF else None


def _is(entry: Any, part: str) -> bool:
    return isinstance(entry, dict) and json.loads(part[2:]).items() <= entry.items()


def _value(body: Any, path: Path) -> Any:
    """What stands at a path. That an entry of a list is there is nobody's alone, so it is None."""
    if path[-1] == _ITSELF:
        return None
    for part in path:
        body = _step(body, part)
    return body


def _without(body: Any, path: Path) -> Any:
    """`body` less what stands at a path, and less the objects that are empty for it."""
    part, *rest = path
    if part == _ITSELF or body is None:
        return body
    below = _step(body, part)
    gone = below is None or not rest or (rest == [_ITSELF])
    shorter = None if gone else _without(below, tuple(rest))
    if isinstance(body, list):
        return [
            shorter if entry is below else entry
            for entry in body
            if entry is not below or shorter is not None
        ] or None
    result = {field: value for field, value in body.items() if field != part[2:]}
    if shorter not in (None, {}):
        result[part[2:]] = shorter
    return result
