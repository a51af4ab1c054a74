"""`kubeadm upgrade`: a node takes on another version, short of its kubelet, which is a package."""

import json
from datetime import UTC, datetime

from domain.machine import Role
from domain.releases import Version
from domain.upgrades import tolerates
from sim.clusters.cluster import Cluster
from sim.faults import How
from sim.hosts.host import NODES, Kind
from sim.hosts.kubeadm.init import KUBELET_CONF, MANIFESTS, etcd_tag, manifests
from sim.hosts.kubeadm.runs import (
    ADMIN_CONF,
    KubeadmError,
    Phase,
    Verb,
    Work,
    administered,
    fatal,
    refused,
    trouble,
    unprivileged,
)
from sim.hosts.services import kubernetes_version
from sim.hosts.shell import Call

_BACKUPS = "/etc/kubernetes/tmp/kubeadm-backup"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
_COREDNS = "/api/v1/namespaces/kube-system/configmaps/coredns"
_COREDNS_VERSION = "v1.11.3"
_RECOVERED = (
    "error execution phase control-plane: couldn't upgrade control plane. kubeadm has tried to "
    "recover everything into the earlier state. Errors faced: "
)
_FORBIDDEN = (
    'configmaps "kubeadm-config" is forbidden: User "kubernetes-admin" cannot get resource '
    '"configmaps" in API group "" in the namespace "kube-system"'
)
_CONTROLS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_PLAN_FAILED = 2
"""The exit code of a plan whose first questions were not answered."""


def plan(call: Call, target: str) -> str:
    """What `upgrade plan -o json` says: a document if the version is newer than the cluster's, and
    nothing at all if it is not."""
    cluster = _administered(call)
    forbidden = (
        'configmaps "coredns" is forbidden: User "kubernetes-admin" cannot get resource '
        '"configmaps" in API group "" in the namespace "kube-system"'
    )
    if why := trouble(call, cluster, _COREDNS, forbidden):
        checks = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
        errors = [f"[ERROR {check}]: {why}" for check in checks]
        raise fatal(errors, code=_PLAN_FAILED, before="")
    _check_health(call, cluster, before="[upgrade/health] FATAL: ")
    current, wanted = Version.parse(cluster.version), Version.parse(target)
    if wanted <= current:
        return ""
    available = {
        "description": f"version in the v{current.major}.{current.minor} series",
        "components": _components(call, cluster, target),
    }
    document = {
        "kind": "UpgradePlan",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "availableUpgrades": [available],
        "configVersions": [
            {
                "group": f"{group}.config.k8s.io",
                "currentVersion": version,
                "preferredVersion": version,
                "manualUpgradeRequired": False,
            }
            for group, version in (("kubeproxy", "v1alpha1"), ("kubelet", "v1beta1"))
        ],
    }
    return json.dumps(document, indent=4)


def _components(call: Call, cluster: Cluster, target: str) -> list[dict[str, str]]:
    """What would change, and what would not: what nodes run once for each of them."""
    clusters, new = call.host.shared.clusters, f"v{target}"
    nodes = sorted(clusters.nodes(cluster.uid), key=lambda node: node.name)
    controls = [node for node in nodes if node.role is Role.CONTROL_PLANE]
    versions = {node.name: cluster.apis.get(node.address, cluster.version) for node in controls}
    ours = f"v{kubernetes_version(call.host, 'kubeadm')}"
    return [
        *(_component("kubelet", f"v{node.version}", new, node.name) for node in nodes),
        *(
            _component(name, f"v{versions[node.name]}", new, node.name)
            for name in _CONTROLS
            for node in controls
        ),
        _component("kube-proxy", cluster.version, new),
        _component("CoreDNS", _COREDNS_VERSION, _COREDNS_VERSION),
        _component("kubeadm", ours, ours if ours == new else new),
        *(
            _component("etcd", etcd_tag(versions[node.name]), etcd_tag(target), node.name)
            for node in controls
        ),
    ]


def _component(name: str, old: str, new: str, node: str = "") -> dict[str, str]:
    where = {"nodeName": node} if node else {}
    return {"name": name, "currentVersion": old, "newVersion": new, **where}


def _administered(call: Call) -> Cluster:
    if errors := unprivileged(call):
        raise fatal(errors)
    try:
        return administered(call)
    except KubeadmError as error:
        raise KubeadmError(
            f'couldn\'t create a Kubernetes client from file "{ADMIN_CONF}": {error.text}'
        ) from error


def _check_health(
    call: Call, cluster: Cluster, *, before: str = "error execution phase preflight: "
) -> None:
    """An upgrade does not begin while a control plane is not Ready."""
    clusters = call.host.shared.clusters
    lost = [
        node.name
        for node in clusters.nodes(cluster.uid)
        if node.role is Role.CONTROL_PLANE and not clusters.node_ready(cluster.uid, node.name)
    ]
    if lost:
        error = (
            "[ERROR ControlPlaneNodesReady]: there are NotReady control-planes in the cluster: "
            f"[{' '.join(lost)}]"
        )
        raise fatal([error], before=before)


def _check_skew(call: Call, cluster: Cluster, target: Version) -> None:
    """What kubeadm holds against the version asked for."""
    current = Version.parse(cluster.version)
    ours = Version.parse(kubernetes_version(call.host, "kubeadm") or "")
    asked = f'Specified version to upgrade to "v{target}"'
    wrong: list[str] = []
    pardonable: list[str] = []
    """What --force would not mind."""
    if target.minor > current.minor + 1:
        wrong.append(f"{asked} is too high; kubeadm can upgrade only 1 minor version at a time")
    if target.minor < current.minor - 1:
        pardonable.append(
            f'Specified version to downgrade to "v{target}" is too low; kubeadm can downgrade '
            "only 1 minor version at a time"
        )
    if target.minor > ours.minor:
        wrong.append(
            f"{asked} is at least one minor release higher than the kubeadm minor release "
            f"({target.minor} > {ours.minor}). Such an upgrade is not supported"
        )
    elif target > ours:
        pardonable.append(
            f'{asked} is higher than the kubeadm version "v{ours}". Upgrade kubeadm first using '
            "the tool you used to install kubeadm"
        )
    if target.minor < ours.minor:
        wrong.append(
            f"Kubeadm version v{ours} can only be used to upgrade to Kubernetes version "
            f"{ours.major}.{ours.minor}"
        )
    old = {
        node.version
        for node in call.host.shared.clusters.nodes(cluster.uid)
        if node.version != cluster.version and not tolerates(Version.parse(node.version), target)
    }
    if old:
        named = " ".join(f"v{version}" for version in sorted(old))
        pardonable.append(
            "There are kubelets in this cluster that are too old that have these versions "
            f"[{named}]"
        )
    if found := [*wrong, *pardonable]:
        listed = "".join(f"\t- {each}\n" for each in found)
        how, then = (
            (
                "fatal errors",
                "Please fix the misalignments highlighted above and try upgrading again",
            )
            if wrong
            else ("errors", "Can be bypassed if you pass the --force flag")
        )
        raise KubeadmError(
            "error execution phase preflight: the version argument is invalid due to these "
            f"{how}:\n\n{listed}\n{then}"
        )


async def _check_apply(work: Work) -> None:
    cluster = _administered(work.call)
    if why := trouble(work.call, cluster, CONFIG_MAP, _FORBIDDEN):
        raise KubeadmError(f"[upgrade] FATAL: failed to get config map: {why}")
    _check_health(work.call, cluster)
    _check_skew(work.call, cluster, Version.parse(work.wanted.version))
    work.run.cluster = cluster.uid


async def _check_node(work: Work) -> None:
    state, clusters = work.host.state.kubeadm, work.host.shared.clusters
    if unprivileged(work.call) or state.kind not in NODES:
        raise KubeadmError(
            "couldn't create a Kubernetes client from file "
            f'"{KUBELET_CONF}": failed to load admin kubeconfig: open {KUBELET_CONF}: no such '
            "file or directory"
        )
    cluster = clusters.get(state.cluster)
    why = (
        trouble(work.call, cluster, CONFIG_MAP, _FORBIDDEN)
        if cluster is not None
        else refused(f"{work.host.address}:6443", work.host.address, CONFIG_MAP)
    )
    if cluster is None or why:
        raise KubeadmError(
            f"unable to fetch the kubeadm-config ConfigMap: failed to get config map: {why}"
        )
    ours, target = Version.parse(work.version), Version.parse(cluster.version)
    if not ours.minor - 1 <= target.minor <= ours.minor:
        raise KubeadmError(
            "error execution phase preflight: this version of kubeadm only supports deploying "
            f"clusters with the control plane version >= {ours.major}.{ours.minor - 1}.0. Current "
            f"version: v{target}"
        )
    work.run.cluster = cluster.uid


async def _replace(work: Work) -> None:
    """The static pods of a control plane, to the version asked for or the cluster's. What does not
    come up is taken back by kubeadm itself. A worker has none."""
    host, cluster = work.host, work.cluster
    if host.state.kubeadm.kind is not Kind.CONTROL_PLANE:
        await work.say("[upgrade/control-plane] Skipping phase. Not a control plane node.")
        return
    clusters = host.shared.clusters
    for member in cluster.members.values():
        if not clusters.member_well(cluster.uid, member):
            raise KubeadmError(
                f"{_RECOVERED}etcd cluster is not healthy: failed to dial endpoint "
                f"https://{member.address}:2379 with maintenance client: context deadline exceeded"
            )
    kept = _kept(work)
    old = {path: host.disk.read(path) for path in MANIFESTS}
    for path, text in old.items():
        host.disk.write(f"{kept}/{path.rpartition('/')[2]}", text, mode=0o600)
    target = work.wanted.version or cluster.version
    for path, text in manifests(target).items():
        host.disk.write(path, text, mode=0o600)
        name = path.rpartition("/")[2]
        await work.say(
            f'[upgrade/staticpods] Moving new manifest to "{path}" and backing up old manifest to '
            f'"{kept}/{name}"'
        )
    if work.fault is not None and work.fault.how is How.FAIL:
        for path, text in old.items():
            host.disk.write(path, text)
        raise KubeadmError(
            f"{_RECOVERED}static Pod hash for component kube-apiserver on Node "
            f"{host.state.kubeadm.name} did not change after 5m0s: {work.fault.message}"
        )
    await clusters.replace_control_plane(cluster.uid, host.address, target)


def _kept(work: Work) -> str:
    """Where the old manifests go, beside a copy of etcd. Nobody ever clears that away."""
    disk, now = work.host.disk, work.host.shared.clock.now()
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d-%H-%M-%S")
    manifests, etcd = f"{_BACKUPS}-manifests-{stamp}", f"{_BACKUPS}-etcd-{stamp}"
    for folder in (manifests, f"{etcd}/etcd/member/snap", f"{etcd}/etcd/member/wal"):
        disk.make_directories(folder, mode=0o700)
    return manifests


async def _addons(work: Work) -> None:
    """They go with the last control plane that is upgraded."""
    clusters, uid = work.host.shared.clusters, work.run.cluster
    left = [
        node.name
        for node in clusters.nodes(uid)
        if node.role is Role.CONTROL_PLANE
        and work.cluster.apis.get(node.address) != work.cluster.version
    ]
    if left:
        await work.say(
            "[upgrade/addon] Skipping upgrade of addons because control plane instances "
            f"[{' '.join(left)}] have not been upgraded"
        )
    else:
        await work.say("[addons] Applied essential addon: kube-proxy")


async def _configure(work: Work) -> None:
    work.host.shared.clusters.configure(work.run.cluster, work.wanted.version)


async def _nothing(_work: Work) -> None:
    """The simulated cluster has this by itself."""


def _applied(work: Work) -> list[str]:
    version = work.wanted.version
    return [
        "",
        f'[upgrade] SUCCESS! A control plane node of your cluster was upgraded to "v{version}".',
    ]


def _seconds(work: Work) -> float:
    return work.host.shared.pace.upgrade


def _as_it_is(work: Work) -> Kind:
    return work.host.state.kubeadm.kind


_STATIC_PODS = Phase(
    "control-plane",
    0.6,
    ("[upgrade/staticpods] Writing new Static Pod manifests to /etc/kubernetes/tmp",),
    _replace,
)
_KUBELET_CONFIG = Phase(
    "kubelet-config",
    0.1,
    ('[kubelet-start] Writing kubelet configuration to file "/var/lib/kubelet/config.yaml"',),
    _nothing,
)

APPLY = Verb(
    name="upgrade apply",
    phases=(
        Phase(
            "preflight",
            0.1,
            (
                "[upgrade] Reading configuration from the cluster...",
                "[upgrade/preflight] Running preflight checks",
                "[upgrade] Running cluster health checks",
            ),
            _check_apply,
        ),
        _STATIC_PODS,
        Phase(
            "upload-config",
            0.1,
            (
                '[upload-config] Storing the configuration used in ConfigMap "kubeadm-config" '
                'in the "kube-system" Namespace',
            ),
            _configure,
        ),
        _KUBELET_CONFIG,
        Phase("addon", 0.1, (), _addons),
    ),
    seconds=_seconds,
    becomes=_as_it_is,
    begun=None,
    breaks_at="",
    last_words=_applied,
)
NODE = Verb(
    name="upgrade node",
    phases=(
        Phase(
            "preflight",
            0.2,
            (
                "[upgrade] Reading configuration from the cluster...",
                "[preflight] Running pre-flight checks",
            ),
            _check_node,
        ),
        _STATIC_PODS,
        _KUBELET_CONFIG,
    ),
    seconds=_seconds,
    becomes=_as_it_is,
    begun=None,
    breaks_at="kubelet-config",
    last_words=lambda _work: [
        "[upgrade] The configuration for this node was successfully updated!",
        "[upgrade] Now you should go ahead and upgrade the kubelet package using your package "
        "manager.",
    ],
)
