"""How a Kubernetes API says no: Status objects, with the words kubectl and others look for."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
"""A JSON object of the API. None is ever changed in place once it has been shown or stored."""


class StatusError(Exception):
    """An answer that is a Status of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.status: Body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": dict(details or {}),
            "code": code,
        }
        if retry_after is not None:
            self.status["details"]["retryAfterSeconds"] = retry_after


def cause(reason: str, message: str, field: str = "") -> Body:
    """One entry of a Status's details."""
    return {"reason": reason, "message": message} | ({"field": field} if field else {})


def not_found(plural: str, group: str, name: str) -> StatusError:
    whole = f"{plural}.{group}" if group else plural
    details = {"name": name, "group": group, "kind": plural}
    return StatusError(404, "NotFound", f'{whole} "{name}" not found', details=details)


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def exists(plural: str, group: str, name: str) -> StatusError:
    whole = f"{plural}.{group}" if group else plural
    details = {"name": name, "group": group, "kind": plural}
    return StatusError(409, "AlreadyExists", f'{whole} "{name}" already exists', details=details)


def outdated(plural: str, name: str, because: str = "") -> StatusError:
    because = because or (
        "the object has been modified; please apply your changes to the latest version and "
        "try again"
    )
    message = f'Operation cannot be fulfilled on {plural} "{name}": {because}'
    return StatusError(409, "Conflict", message, details={"name": name, "kind": plural})


def contested(causes: Sequence[Body]) -> StatusError:
    """An apply that would take fields from somebody else who applied them."""
    one = len(causes) == 1
    message = f"Apply failed with {len(causes)} conflict{'' if one else 's'}: "
    message += ", ".join(f"{entry['message']}: {entry['field']}" for entry in causes)
    return StatusError(409, "Conflict", message, details={"causes": list(causes)})


def invalid(kind: str, name: str, field: str, why: str) -> StatusError:
    details = {"name": name, "kind": kind, "causes": [cause("FieldValueInvalid", why, field)]}
    return StatusError(
        422, "Invalid", f'{kind} "{name}" is invalid: {field}: {why}', details=details
    )


def malformed(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message)


def unsupported(content_type: str) -> StatusError:
    message = f"the body of the request was in an unknown format: {content_type}"
    return StatusError(415, "UnsupportedMediaType", message)


def expired(asked: int, oldest: int) -> StatusError:
    return StatusError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def unauthorised() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, plural: str, group: str, namespace: str) -> StatusError:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = (
        f'{plural} is forbidden: User "{user}" cannot {verb} resource "{plural}" '
        f'in API group "{group}" {where}'
    )
    return StatusError(403, "Forbidden", message, details={"group": group, "kind": plural})


def protected(namespace: str) -> StatusError:
    message = f'namespaces "{namespace}" is forbidden: this namespace may not be deleted'
    return StatusError(403, "Forbidden", message, details={"name": namespace, "kind": "namespaces"})


def budget_spent(budget: str, needed: int, healthy: int) -> StatusError:
    """An eviction that a PodDisruptionBudget does not allow now. When it may, nobody knows, so no
    Retry-After stands beside it."""
    why = f"The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently"
    return StatusError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [cause("DisruptionBudget", why)]},
    )


def no_quorum() -> StatusError:
    return StatusError(500, "", "etcdserver: request timed out")
