"""Label and field selectors: which objects a caller asks for."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sim.kubernetes.errors import Body, malformed

Test: TypeAlias = Callable[[Body], bool]

_SET = re.compile(r"(?P<key>[^\s!=,]+)\s+(?P<word>in|notin)\s+\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s!=]+)\s*(?P<sign>==|!=|=)\s*(?P<value>[^\s,=!]*)")
_PRESENT = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=]+)")
_COMMA = re.compile(r",(?![^(]*\))")


def selected(labels: str, fields: str) -> Test:
    """Whether an object meets both selectors, as they stand in a query."""
    tests = [_label_test(term.strip()) for term in _COMMA.split(labels) if term.strip()]
    tests += [_field_test(term.strip()) for term in fields.split(",") if term.strip()]
    return lambda body: all(test(body) for test in tests)


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a LabelSelector object. None meets nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(rule, labels) for rule in selector.get("matchExpressions") or ())


def _meets(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = rule["key"], rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
    return key not in labels


def _label_test(term: str) -> Test:
    def labels(body: Body) -> dict[str, str]:
        return body["metadata"].get("labels") or {}

    if found := _SET.fullmatch(term):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["word"] == "in":
            return lambda body: labels(body).get(key) in values
        return lambda body: labels(body).get(key) not in values
    if found := _EQUAL.fullmatch(term):
        key, value, equal = found["key"], found["value"], found["sign"] != "!="
        return lambda body: (labels(body).get(key) == value) is equal
    if found := _PRESENT.fullmatch(term):
        key, present = found["key"], not found["absent"]
        return lambda body: (key in labels(body)) is present
    raise malformed(f"unable to parse requirement: {term!r}")


def _field_test(term: str) -> Test:
    found = _EQUAL.fullmatch(term)
    if found is None:
        raise malformed(f"invalid field selector: {term!r}")
    path, value, equal = found["key"].split("."), found["value"], found["sign"] != "!="
    return lambda body: (_text(body, path) == value) is equal


def _text(body: Any, path: list[str]) -> str:
    """A field as selectors compare it: absent is empty, and true is a word."""
    for part in path:
        if not isinstance(body, dict):
            return ""
        body = body.get(part)
    if isinstance(body, bool):
        return str(body).lower()
    return "" if body is None else str(body)
