"""Which kinds the simulated API has, and how it tells clients of them.

Everything is in one table: paths, discovery in both its forms, and as much OpenAPI as kubectl asks
for before it applies something, which is whether fields are validated by the server."""

from collections.abc import Iterable
from typing import Any

from domain.frozen import Frozen
from sim.kubernetes.errors import Body

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(Frozen):
    name: str
    kind: str = ""
    """Empty: its parent's."""
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")


class Kind(Frozen):
    """A kind of object that the API keeps, or with `verbs` of ("create",) one it only answers."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[Subresource, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def kept(self) -> bool:
        return "get" in self.verbs

    def has(self, part: str) -> bool:
        return any(known.name == part for known in self.subresources)


_STATUS = Subresource(name="status")
_EVICTION = Subresource(
    name="eviction", kind="Eviction", group="policy", version="v1", verbs=("create",)
)
_EXEC = Subresource(name="exec", kind="PodExecOptions", version="v1", verbs=("create", "get"))
_ALL = ("all",)

_RBAC = "rbac.authorization.k8s.io"
_ASKED = ("create",)

KINDS: tuple[Kind, ...] = (
    Kind(plural="configmaps", kind="ConfigMap", short=("cm",)),
    Kind(plural="endpoints", kind="Endpoints", short=("ep",)),
    Kind(plural="events", kind="Event", short=("ev",)),
    Kind(
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        short=("ns",),
        subresources=(_STATUS,),
    ),
    Kind(
        plural="nodes",
        kind="Node",
        namespaced=False,
        short=("no",),
        verbs=("delete", "get", "list", "patch", "update", "watch"),
        subresources=(_STATUS,),
    ),
    Kind(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", short=("pvc",)),
    Kind(plural="persistentvolumes", kind="PersistentVolume", namespaced=False, short=("pv",)),
    Kind(
        plural="pods",
        kind="Pod",
        short=("po",),
        categories=_ALL,
        subresources=(_STATUS, _EVICTION, _EXEC),
    ),
    Kind(plural="secrets", kind="Secret"),
    Kind(plural="serviceaccounts", kind="ServiceAccount", short=("sa",)),
    Kind(plural="services", kind="Service", short=("svc",), categories=_ALL),
    Kind(
        group="apps",
        plural="daemonsets",
        kind="DaemonSet",
        short=("ds",),
        categories=_ALL,
        subresources=(_STATUS,),
    ),
    Kind(
        group="apps",
        plural="deployments",
        kind="Deployment",
        short=("deploy",),
        categories=_ALL,
        subresources=(_STATUS,),
    ),
    Kind(group="apps", plural="replicasets", kind="ReplicaSet", short=("rs",), categories=_ALL),
    Kind(group="apps", plural="statefulsets", kind="StatefulSet", short=("sts",), categories=_ALL),
    Kind(group="batch", plural="cronjobs", kind="CronJob", short=("cj",), categories=_ALL),
    Kind(group="batch", plural="jobs", kind="Job", categories=_ALL),
    Kind(group="coordination.k8s.io", plural="leases", kind="Lease"),
    Kind(group="events.k8s.io", plural="events", kind="Event", short=("ev",)),
    Kind(group="networking.k8s.io", plural="networkpolicies", kind="NetworkPolicy"),
    Kind(
        group="policy",
        plural="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        short=("pdb",),
        subresources=(_STATUS,),
    ),
    Kind(group=_RBAC, plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False),
    Kind(group=_RBAC, plural="clusterroles", kind="ClusterRole", namespaced=False),
    Kind(group=_RBAC, plural="rolebindings", kind="RoleBinding"),
    Kind(group=_RBAC, plural="roles", kind="Role"),
    Kind(
        group="storage.k8s.io",
        plural="storageclasses",
        kind="StorageClass",
        namespaced=False,
        short=("sc",),
    ),
    Kind(
        group="authentication.k8s.io",
        plural="selfsubjectreviews",
        kind="SelfSubjectReview",
        namespaced=False,
        verbs=_ASKED,
    ),
    Kind(
        group="authorization.k8s.io",
        plural="selfsubjectaccessreviews",
        kind="SelfSubjectAccessReview",
        namespaced=False,
        verbs=_ASKED,
    ),
    Kind(
        group="authorization.k8s.io",
        plural="selfsubjectrulesreviews",
        kind="SelfSubjectRulesReview",
        namespaced=False,
        verbs=_ASKED,
    ),
)


def _find(plural: str, group: str = "") -> Kind:
    return next(kind for kind in KINDS if (kind.plural, kind.group) == (plural, group))


NODES = _find("nodes")
PODS = _find("pods")
NAMESPACES = _find("namespaces")
EVENTS = (_find("events"), _find("events", "events.k8s.io"))
CONFIGMAPS = _find("configmaps")
SECRETS = _find("secrets")
LEASES = _find("leases", "coordination.k8s.io")
DAEMONSETS = _find("daemonsets", "apps")
DEPLOYMENTS = _find("deployments", "apps")
BUDGETS = _find("poddisruptionbudgets", "policy")
REPLICATED = (DEPLOYMENTS, _find("replicasets", "apps"), _find("statefulsets", "apps"))

_BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
GROUP_VERSIONS = tuple(dict.fromkeys((kind.group, kind.version) for kind in KINDS))


def named(group: str, version: str, plural: str) -> Kind | None:
    return _BY_PATH.get((group, version, plural))


def aggregated(*, core: bool) -> Body:
    """Discovery of /api or of all of /apis in one document."""
    groups: dict[str, dict[str, list[Body]]] = {}
    for kind in KINDS:
        if (kind.group == "") is core:
            versions = groups.setdefault(kind.group, {})
            versions.setdefault(kind.version, []).append(_aggregated_kind(kind))
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {"version": version, "resources": resources, "freshness": "Current"}
                    for version, resources in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


def _aggregated_kind(kind: Kind) -> Body:
    return {
        "resource": kind.plural,
        "responseKind": _gvk(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.kind.lower(),
        "verbs": list(kind.verbs),
        "shortNames": list(kind.short),
        "categories": list(kind.categories),
        "subresources": [
            {
                "subresource": part.name,
                "responseKind": _gvk(kind, part),
                "verbs": list(part.verbs),
            }
            for part in kind.subresources
        ],
    }


def _gvk(kind: Kind, part: Subresource | None = None) -> Body:
    if part is not None and part.kind:
        return {"group": part.group, "version": part.version, "kind": part.kind}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def api_versions(server: str) -> Body:
    """Discovery of /api, the old form."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
    }


def group_list() -> Body:
    """Discovery of /apis, the old form."""
    groups = dict.fromkeys(group for group, _ in GROUP_VERSIONS if group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_of(g) for g in groups]}


def group_of(group: str) -> Body:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for known, version in GROUP_VERSIONS
        if known == group
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def eviction_version(release: str) -> str:
    """How evictions are called by a server of this release: by one name only, as a client must
    ask before it evicts."""
    return "v1" if int(release.split(".")[1]) >= 22 else "v1beta1"


def resource_list(group: str, version: str, release: str) -> Body:
    """Discovery of one group and version, the old form, by a server of this release."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [
            entry
            for kind in KINDS
            if (kind.group, kind.version) == (group, version)
            for entry in _resources(kind, release)
        ],
    }


def _resources(kind: Kind, release: str) -> Iterable[Body]:
    shared = {"namespaced": kind.namespaced}
    yield shared | {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        "shortNames": list(kind.short),
        "categories": list(kind.categories),
    }
    for part in kind.subresources:
        entry: Body = shared | {
            "name": f"{kind.plural}/{part.name}",
            "singularName": "",
            "kind": part.kind or kind.kind,
            "verbs": list(part.verbs),
        }
        if part.group:
            version = eviction_version(release) if part is _EVICTION else part.version
            entry |= {"group": part.group, "version": version}
        yield entry


def openapi_index() -> Body:
    roots = [f"apis/{group}/{version}" if group else "api/v1" for group, version in GROUP_VERSIONS]
    paths = {root: {"serverRelativeURL": f"/openapi/v3/{root}?hash=simulated"} for root in roots}
    return {"paths": paths}


def openapi(group: str, version: str) -> Body:
    """No schemas: only that a PATCH of each kind takes `fieldValidation`."""
    paths: dict[str, Any] = {}
    parameters = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    for kind in KINDS:
        if (kind.group, kind.version) == (group, version):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            middle = "/namespaces/{namespace}" if kind.namespaced else ""
            paths[f"{root}{middle}/{kind.plural}/{{name}}"] = {
                "patch": {
                    "parameters": parameters,
                    "responses": {"200": {"description": "OK"}},
                    "x-kubernetes-group-version-kind": _gvk(kind),
                }
            }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "simulated"},
        "paths": paths,
        "components": {"schemas": {}},
    }
