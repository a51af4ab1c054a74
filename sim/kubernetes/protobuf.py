"""Kubernetes' protobuf, as far as kubectl insists on it: what `create` sends, and reviews.

Only requests: every client takes JSON for an answer. A field that no table names is dropped."""

import base64
from collections.abc import Iterator
from typing import Any, TypeAlias

from sim.kubernetes.errors import Body, malformed, unsupported

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"

Shape: TypeAlias = dict[int, tuple[str, Any]]
"""A message: the name of each field by its number, and how its value is read. That is a shape, a
list of one for what is repeated, `dict` or `_BYTES` for a map, or the type of a plain value."""

_BYTES = object()
_NUMBER_OR_TEXT: Shape = {1: ("type", int), 2: ("number", int), 3: ("text", str)}

_METADATA: Shape = {
    1: ("name", str),
    2: ("generateName", str),
    3: ("namespace", str),
    11: ("labels", dict),
    12: ("annotations", dict),
}
_REQUIREMENT: Shape = {1: ("key", str), 2: ("operator", str), 3: ("values", [str])}
_SELECTOR: Shape = {1: ("matchLabels", dict), 2: ("matchExpressions", [_REQUIREMENT])}
_PORT: Shape = {1: ("name", str), 3: ("containerPort", int), 4: ("protocol", str)}
_CONTAINER: Shape = {
    1: ("name", str),
    2: ("image", str),
    3: ("command", [str]),
    4: ("args", [str]),
    6: ("ports", [_PORT]),
}
_POD: Shape = {2: ("containers", [_CONTAINER]), 7: ("nodeSelector", dict), 10: ("nodeName", str)}
_TEMPLATE: Shape = {1: ("metadata", _METADATA), 2: ("spec", _POD)}
_DEPLOYMENT: Shape = {1: ("replicas", int), 2: ("selector", _SELECTOR), 3: ("template", _TEMPLATE)}
_BUDGET: Shape = {
    1: ("minAvailable", _NUMBER_OR_TEXT),
    2: ("selector", _SELECTOR),
    3: ("maxUnavailable", _NUMBER_OR_TEXT),
}
_DELETION: Shape = {
    1: ("gracePeriodSeconds", int),
    2: ("preconditions", {1: ("uid", str), 2: ("resourceVersion", str)}),
    4: ("propagationPolicy", str),
    5: ("dryRun", [str]),
}

SHAPES: dict[tuple[str, str], Shape] = {
    ("apps/v1", "Deployment"): {1: ("metadata", _METADATA), 2: ("spec", _DEPLOYMENT)},
    ("policy/v1", "Eviction"): {1: ("metadata", _METADATA), 2: ("deleteOptions", _DELETION)},
    ("policy/v1", "PodDisruptionBudget"): {1: ("metadata", _METADATA), 2: ("spec", _BUDGET)},
    ("v1", "ConfigMap"): {1: ("metadata", _METADATA), 2: ("data", dict), 3: ("binaryData", _BYTES)},
    ("v1", "DeleteOptions"): _DELETION,
    ("v1", "Namespace"): {1: ("metadata", _METADATA)},
    ("v1", "Pod"): {1: ("metadata", _METADATA), 2: ("spec", _POD)},
    ("v1", "Secret"): {1: ("metadata", _METADATA), 2: ("data", _BYTES), 3: ("type", str)},
    ("v1", "ServiceAccount"): {1: ("metadata", _METADATA)},
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {},
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {},
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {},
}


def decoded(content: bytes) -> Body:
    """The object in an envelope."""
    if not content.startswith(_MAGIC):
        raise malformed("the request's body is not Kubernetes' protobuf")
    try:
        envelope: Body = {}
        inside = b""
        for number, value in _fields(content[len(_MAGIC) :]):
            if number == 1:
                envelope = _message(value, {1: ("apiVersion", str), 2: ("kind", str)})
            elif number == 2:
                inside = value
        shape = SHAPES.get((envelope["apiVersion"], envelope["kind"]))
        if shape is None:
            raise unsupported(f"{MEDIA_TYPE} of a {envelope['kind']}")
        return envelope | _message(inside, shape)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise malformed(f"the request's body cannot be read: {error}") from error


def _message(content: bytes, shape: Shape) -> Body:
    body: Body = {}
    for number, value in _fields(content):
        if number not in shape:
            continue
        name, reader = shape[number]
        if isinstance(reader, list):
            body.setdefault(name, []).append(_read(value, reader[0]))
        elif reader is dict or reader is _BYTES:
            entry = _message(value, {1: ("key", str), 2: ("value", bytes)})
            plain = entry.get("value", b"")
            text = base64.b64encode(plain) if reader is _BYTES else plain
            body.setdefault(name, {})[entry.get("key", "")] = text.decode()
        else:
            body[name] = _read(value, reader)
    return {name: value for name, value in body.items() if value not in ("", {}, None)}


def _read(value: Any, reader: Any) -> Any:
    if reader is _NUMBER_OR_TEXT:
        either = _message(value, _NUMBER_OR_TEXT)
        return either.get("text", "") if either.get("type") else either.get("number", 0)
    if isinstance(reader, dict):
        return _message(value, reader)
    return value.decode() if reader is str else reader(value)


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Each field's number and its value: a number, or bytes still to be read."""
    place = 0
    while place < len(content):
        tag, place = _varint(content, place)
        match tag & 7:
            case 0:
                value, place = _varint(content, place)
                yield tag >> 3, value
            case 2:
                length, place = _varint(content, place)
                yield tag >> 3, content[place : place + length]
                place += length
            case 1 | 5 as fixed:
                place += 8 if fixed == 1 else 4
            case kind:
                raise ValueError(f"wire type {kind}")


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
