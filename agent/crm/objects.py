"""The objects of a manifest: read, marked with the instance that holds them, and compared with what
is in a cluster.

The mark is an annotation. It stands on the pods that are made from an object, too, and nobody's
manifest may set it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from lightkube import codecs
from lightkube.core.exceptions import LoadResourceError
from lightkube.core.resource import GlobalResource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from lightkube.resources.batch_v1 import CronJob, Job
from lightkube.resources.core_v1 import ConfigMap, ReplicationController

from agent.crm import names
from domain.errors import Failed
from domain.yaml_limits import TooComplexError, check

FIELD_MANAGER = "windlass-crm"
NOTES = "kube-system"
"""The namespace of the notes of what was applied."""

NOTED: dict[str, Any] = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
"""The labels of notes."""

RESERVED = "windlass/"
"""What annotations begin with that are ours to set."""

HOLDER = f"{RESERVED}owner"
"""The annotation that says which instance holds an object."""

TEMPLATED = (CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet)
"""What pods are made from."""


class Applied(NamedTuple):
    """What was applied for an instance."""

    note: str
    manifest: str
    marked: bool
    """Whether its objects say who holds them."""


def read(manifest: str) -> list[Any]:
    try:
        check(manifest)
        found = list(codecs.load_all_yaml(manifest, create_resources_for_crds=True))
    except (
        *(TooComplexError, RecursionError, yaml.YAMLError),
        *(LoadResourceError, AttributeError, TypeError),
    ) as error:
        raise Failed(f"the manifest cannot be applied: {error}") from error
    if not all(each.metadata and each.metadata.name for each in found):
        raise Failed("the manifest cannot be applied: an object in it has no name")
    return found


def hold(each: Any, owner: str) -> None:
    """Write into an object, and into the pods that are made from it, who holds it. Failed if the
    object says anything in our place already, or would itself pass for a note."""
    said = next((key for key in _keys(each.to_dict()) if key.startswith(RESERVED)), "")
    if said:
        raise Failed(
            f"the manifest cannot be applied: {describe(each)} sets {said}, which is reserved",
            do=f"leave out keys that begin with {RESERVED}",
        )
    if _passes_for_note(each):
        raise Failed(
            f"the manifest cannot be applied: {describe(each)} in {NOTES} could be taken for a "
            "record of Windlass",
            do="name it otherwise, and leave out its label app.kubernetes.io/managed-by",
        )
    for metadata in _metadatas(each):
        metadata.annotations = {**(metadata.annotations or {}), HOLDER: owner}
        if isinstance(each, dict):  # of a kind that lightkube does not know: it gave us a copy
            each["metadata"] = metadata


def _keys(plain: Any) -> Iterator[str]:
    """Every key of every mapping in an object."""
    left = [plain]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield from map(str, each)
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _passes_for_note(each: Any) -> bool:
    metadata = each.metadata
    if not isinstance(each, ConfigMap) or metadata.namespace != NOTES:
        return False
    return NOTED.items() <= (metadata.labels or {}).items() or names.is_given(metadata.name)


def _metadatas(each: Any) -> list[Any]:
    """The metadata of an object, and of the pods that are made from it."""
    found = [each.metadata]
    spec = getattr(each, "spec", None)
    if isinstance(each, CronJob):
        spec = spec and spec.jobTemplate and spec.jobTemplate.spec
    if isinstance(each, TEMPLATED) and spec and spec.template:
        spec.template.metadata = spec.template.metadata or ObjectMeta()
        found.append(spec.template.metadata)
    return found


def holder_of(found: Any) -> str:
    return str((found.metadata.annotations or {}).get(HOLDER, ""))


def is_held(found: Any, owner: str, applied: Applied | None) -> bool:
    """Whether an object is held by an instance: it says so, or it says nothing and was applied by a
    release that wrote nothing on it."""
    holder = holder_of(found)
    if holder or applied is None or applied.marked:
        return holder == owner
    return any(_identity(found) == _identity(each) for each in read(applied.manifest))


def _identity(each: Any) -> tuple[type, str, str]:
    metadata: Any = each.metadata
    namespace = "" if isinstance(each, GlobalResource) else metadata.namespace or "default"
    return type(each), namespace, str(metadata.name)


def describe(each: Any) -> str:
    return f"{type(each).__name__.lower()} {each.metadata.name}"
