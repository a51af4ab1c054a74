"""Pods: what runs on nodes, as it is seen. And images, which they are made of.

An instance is what is wanted, a pod is what there is of it: one incarnation, on one node. Its
record and its log stay for a while after it is gone."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from uuid import UUID, uuid5

from domain.errors import Invalid, NotFound
from domain.frozen import Frozen

Pairs = tuple[tuple[str, str], ...]
"""Names and values in their order. A name may come twice; the first one counts."""

PODS = UUID("6d6f0d3c-6f1f-5e0d-9a8e-2f8b5a1c7e40")
"""The namespace that pods draw their ids in."""

INSTANCE, INCARNATION, NODE, TENANT, WORKLOAD = (
    "windlass/instance",
    "windlass/incarnation",
    "windlass/node",
    "windlass/tenant",
    "windlass/workload",
)
"""The annotations that say whose a pod is."""

NODE_STATE = "windlass/node-state"
"""The annotation that says why nobody knows of it."""


class PodState(StrEnum):
    EMBRYO = "EMBRYO"
    """Wanted, and on no node yet."""
    PREPARING = "PREPARING"
    """Its image is being fetched, its container made."""
    PREPARED = "PREPARED"
    ABORTED_PREPARE = "ABORTED_PREPARE"
    """It could not be made ready, and never ran."""
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    DELETING = "DELETING"
    GARBAGE = "GARBAGE"
    """It is gone; this is its record."""
    UNDEFINED = "UNDEFINED"
    """Nobody knows: its node is away, and had not said how it ended."""


HIDDEN = frozenset({PodState.EMBRYO, PodState.PREPARING, PodState.ABORTED_PREPARE})
"""Of those no more is told than that they are there."""

BEGUN = frozenset(
    {
        PodState.RUNNING,
        PodState.EXITED,
        PodState.DELETING,
        PodState.GARBAGE,
        PodState.UNDEFINED,
    }
)

ENDED = frozenset({PodState.ABORTED_PREPARE, PodState.EXITED, PodState.DELETING, PodState.GARBAGE})
"""Such a pod says nothing more, unless it is started again."""


class AppState(StrEnum):
    UNDEFINED = "UNDEFINED"
    RUNNING = "RUNNING"
    EXITED = "EXITED"


class Format(StrEnum):
    """What an image was before it was imported."""

    UNDEFINED = "UNDEFINED"
    APPC = "APPC"
    DOCKER = "DOCKER"
    OCI = "OCI"


class Image(Frozen):
    id: str
    """Made from its configuration, so that the same image pushed again is the same here."""
    name: str = ""
    version: str = "latest"
    format: Format = Format.UNDEFINED
    format_version: str = ""
    imported: int = 0
    """In seconds."""
    size: int = 0
    manifest: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()

    def shown(self, *, detail: bool) -> "Image":
        return self if detail else self.model_copy(update={"manifest": ""})


class Network(Frozen):
    name: str
    ipv4: str = ""
    ipv6: str = ""


class App(Frozen):
    name: str
    image: Image
    state: AppState = AppState.UNDEFINED
    exit_code: int = 0
    annotations: Pairs = ()


class Pod(Frozen):
    id: str
    state: PodState
    pid: int = -1
    apps: tuple[App, ...] = ()
    networks: tuple[Network, ...] = ()
    annotations: Pairs = ()
    cgroup: str = ""
    created_ns: int = 0
    started_ns: int = 0
    marked_ns: int = 0
    """When it became garbage."""
    manifest: str = ""

    def shown(self, *, detail: bool) -> "Pod":
        """What may be seen of it in the state it is in."""
        if self.state in HIDDEN:
            return Pod(id=self.id, state=self.state)
        begun, running = self.state in BEGUN, self.state is PodState.RUNNING
        connected = self.state in {PodState.RUNNING, PodState.EXITED}
        return self.model_copy(
            update={
                "networks": self.networks if connected else (),
                "cgroup": self.cgroup if running else "",
                "started_ns": self.started_ns if begun else 0,
                "marked_ns": self.marked_ns if self.state is PodState.GARBAGE else 0,
                "manifest": self.manifest if detail else "",
            }
        )

    def on_node_away(self, node_state: str) -> "Pod":
        """How it stands while its node is not heard of. What had ended has ended; of what had not,
        its node's last word is no truth any more."""
        if self.state in ENDED:
            return self
        apps = tuple(app.model_copy(update={"state": AppState.UNDEFINED}) for app in self.apps)
        notes = (*self.annotations, (NODE_STATE, node_state))
        unknown = {"state": PodState.UNDEFINED, "apps": apps, "annotations": notes}
        return self.model_copy(update=unknown)

    def annotation(self, name: str) -> str:
        return dict(reversed(self.annotations)).get(name, "")


def pod_id(tenant: str, instance: str, incarnation: int) -> str:
    """The same for all who know what it is a pod of."""
    return str(uuid5(PODS, f"{tenant}/{instance}/{incarnation}"))


class PodFilter(Frozen):
    """Conditions that must all hold. One that is empty does."""

    ids: tuple[str, ...] = ()
    states: tuple[PodState | None, ...] = ()
    """None is a state that no pod has."""
    app_names: tuple[str, ...] = ()
    image_ids: tuple[str, ...] = ()
    network_names: tuple[str, ...] = ()
    annotations: Pairs = ()
    cgroups: tuple[str, ...] = ()
    pod_sub_cgroups: tuple[str, ...] = ()


class ImageFilter(Frozen):
    """Conditions that must all hold. One that is empty does."""

    ids: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    base_names: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    labels: Pairs = ()
    imported_after: int = 0
    imported_before: int = 0
    annotations: Pairs = ()
    full_names: tuple[str, ...] = ()


def _has_all(there: Iterable[str], wanted: Iterable[str]) -> bool:
    return set(wanted) <= set(there)


def _has_pairs(there: Pairs, wanted: Pairs) -> bool:
    first = dict(reversed(there))
    return all(first.get(name) == value for name, value in wanted)


def _is_above(cgroup: str, path: str) -> bool:
    """Whether a pod's cgroup is this one or lies above it; its sibling's name may begin alike. `/`
    is that of a process in no group of its own, so it is nobody's parent."""
    if not cgroup or path == cgroup:
        return bool(cgroup)
    return cgroup != "/" and path.startswith(cgroup.rstrip("/") + "/")


POD_CONDITIONS: dict[str, Callable[[Pod, PodFilter], bool]] = {
    "ids": lambda pod, by: pod.id in by.ids,
    "states": lambda pod, by: pod.state in by.states,
    "app_names": lambda pod, by: _has_all((app.name for app in pod.apps), by.app_names),
    "image_ids": lambda pod, by: _has_all((app.image.id for app in pod.apps), by.image_ids),
    "network_names": lambda pod, by: _has_all((one.name for one in pod.networks), by.network_names),
    "annotations": lambda pod, by: _has_pairs(pod.annotations, by.annotations),
    "cgroups": lambda pod, by: pod.cgroup in by.cgroups,
    "pod_sub_cgroups": lambda pod, by: any(
        _is_above(pod.cgroup, path) for path in by.pod_sub_cgroups
    ),
}

IMAGE_CONDITIONS: dict[str, Callable[[Image, ImageFilter], bool]] = {
    "ids": lambda image, by: image.id in by.ids,
    "prefixes": lambda image, by: image.name.startswith(by.prefixes),
    "base_names": lambda image, by: image.name.rpartition("/")[2] in by.base_names,
    "keywords": lambda image, by: any(word in image.name for word in by.keywords),
    "labels": lambda image, by: _has_pairs(image.labels, by.labels),
    "imported_after": lambda image, by: image.imported > by.imported_after,
    "imported_before": lambda image, by: image.imported < by.imported_before,
    "annotations": lambda image, by: _has_pairs(image.annotations, by.annotations),
    "full_names": lambda image, by: image.name in by.full_names,
}


def pods_match(pod: Pod, filters: Sequence[PodFilter]) -> bool:
    """Whether one of the filters lets a pod through. No filter lets all."""
    return not filters or any(
        all(holds(pod, by) for name, holds in POD_CONDITIONS.items() if getattr(by, name))
        for by in filters
    )


def images_match(image: Image, filters: Sequence[ImageFilter]) -> bool:
    """Whether one of the filters lets an image through. No filter lets all."""
    return not filters or any(
        all(holds(image, by) for name, holds in IMAGE_CONDITIONS.items() if getattr(by, name))
        for by in filters
    )


def pod_of(pods: Iterable[Pod], prefix: str) -> Pod:
    """The one pod whose id begins so, in either case."""
    if not prefix:
        raise Invalid("the id of a pod is missing", reason="POD_ID_MISSING", do="windlass pod list")
    found = [pod for pod in pods if pod.id.startswith(prefix.lower())]
    exact = [pod for pod in found if pod.id == prefix.lower()]
    if not found:
        raise NotFound(
            f"there is no pod {prefix}",
            subject=prefix,
            reason="POD_NOT_FOUND",
            do="windlass pod list shows those there are",
        )
    if len(found) > 1 and not exact:
        raise Invalid(
            f"{len(found)} pods have ids that begin with {prefix}",
            subject=prefix,
            reason="POD_ID_AMBIGUOUS",
            do="say more of the id",
        )
    return (exact or found)[0]


def image_of(images: Iterable[Image], key: str) -> Image:
    """The image of exactly this id."""
    if not key:
        raise Invalid(
            "the id of an image is missing", reason="IMAGE_ID_MISSING", do="windlass image list"
        )
    for image in images:
        if image.id == key:
            return image
    raise NotFound(
        f"there is no image {key}",
        subject=key,
        reason="IMAGE_NOT_FOUND",
        do="windlass image list shows those there are",
    )
