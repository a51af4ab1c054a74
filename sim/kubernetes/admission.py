"""What may be stored: objects are checked as far as anything here relies on them, and completed."""

import base64
import re
import secrets
from typing import Any

from domain.naming import is_label_key, is_label_value
from sim.kubernetes import errors
from sim.kubernetes.errors import Body
from sim.kubernetes.kinds import BUDGETS, DAEMONSETS, NAMESPACES, PODS, REPLICATED, SECRETS, Kind

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PERCENTAGE = re.compile(r"\d{1,3}%")
_LOOSELY_NAMED = "rbac.authorization.k8s.io"
_TEMPLATED = (DAEMONSETS, *REPLICATED)


def admitted(kind: Kind, namespace: str, body: Any) -> Body:
    """A copy that may be stored: of this kind, with a name, in this namespace."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
        raise errors.malformed("the request's body is not an object")
    told = (body.get("apiVersion") or kind.api_version, body.get("kind") or kind.kind)
    if told != (kind.api_version, kind.kind):
        raise errors.malformed(f"{told[0]} {told[1]} is not {kind.api_version} {kind.kind}")
    metadata = dict(body.get("metadata") or {})
    if kind.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise errors.malformed(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + secrets.token_hex(3)[:5]
    _check_metadata(kind, metadata)
    if kind in (PODS, BUDGETS, *_TEMPLATED):
        _check_spec(kind, metadata["name"], body.get("spec"))
    body = {"apiVersion": told[0], "kind": told[1], **body, "metadata": metadata}
    if kind is NAMESPACES:
        return _namespace(body)
    return _sealed(body) if kind is SECRETS else body


def is_network(daemonset: Body) -> bool:
    """Whether it brings a pod network: it writes where container runtimes look for one."""
    pod = (daemonset["spec"].get("template") or {}).get("spec") or {}
    return any(
        ((volume.get("hostPath") or {}).get("path") or "").startswith("/etc/cni")
        for volume in pod.get("volumes") or ()
    )


def _check_metadata(kind: Kind, metadata: Body) -> None:
    name = metadata.get("name") or ""
    if not name:
        raise errors.invalid(kind.kind, "", "metadata.name", "Required value: name is required")
    if kind.group != _LOOSELY_NAMED and not _NAME.fullmatch(name):
        raise errors.invalid(
            kind.kind,
            name,
            "metadata.name",
            f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.'",
        )
    labels = metadata.get("labels") or {}
    for label, value in labels.items() if isinstance(labels, dict) else [("", labels)]:
        if not isinstance(value, str) or not is_label_key(label) or not is_label_value(value):
            why = f'Invalid value: "{label}={value}": not a label'
            raise errors.invalid(kind.kind, name, "metadata.labels", why)


def _check_spec(kind: Kind, name: str, spec: Any) -> None:
    def check(fits: bool, field: str) -> None:
        if not fits:
            raise errors.invalid(kind.kind, name, field, "Required value, or not of its type")

    check(isinstance(spec, dict), "spec")
    replicas = spec.get("replicas", 1)
    check(isinstance(replicas, int) and replicas >= 0, "spec.replicas")
    for field in ("minAvailable", "maxUnavailable"):
        amount = spec.get(field, 0)
        fits = isinstance(amount, int) or (
            isinstance(amount, str) and _PERCENTAGE.fullmatch(amount)
        )
        check(bool(fits), f"spec.{field}")
    if kind is BUDGETS:
        return
    pod, where = spec, "spec"
    if kind in _TEMPLATED:
        template = spec.get("template")
        check(
            isinstance(template, dict) and isinstance(template.get("spec"), dict), "spec.template"
        )
        pod, where = template["spec"], "spec.template.spec"
    containers = pod.get("containers")
    check(
        isinstance(containers, list)
        and all(isinstance(known, dict) and known.get("name") for known in containers),
        f"{where}.containers",
    )


def _namespace(body: Body) -> Body:
    metadata = body["metadata"]
    labels = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    return {
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
        **body,
        "metadata": metadata | {"labels": labels},
    }


def _sealed(body: Body) -> Body:
    """A Secret with its strings as data."""
    plain = body.get("stringData") or {}
    encoded = {field: base64.b64encode(text.encode()).decode() for field, text in plain.items()}
    rest = {field: value for field, value in body.items() if field != "stringData"}
    data = (body.get("data") or {}) | encoded
    return {"type": "Opaque", **rest, **({"data": data} if data else {})}
