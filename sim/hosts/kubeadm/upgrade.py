"""`kubeadm upgrade`: a node takes on another version, short of its kubelet, which is a package."""

import json

from domain.machine import Role
from domain.releases import Version
from domain.upgrades import tolerates
from sim.clusters.cluster import Cluster
from sim.faults import How
from sim.hosts.disk import ROOT
from sim.hosts.host import NODES, Kind
from sim.hosts.kubeadm.init import KUBELET_CONF, MANIFESTS, etcd_tag, manifests
from sim.hosts.kubeadm.runs import KubeadmError, Phase, Verb, Work, reachable
from sim.hosts.services import kubernetes_version
from sim.hosts.shell import Call

BACKUPS = "/etc/kubernetes/tmp/kubeadm-backup-manifests"
_RECOVERED = (
    "error execution phase control-plane: couldn't upgrade control plane. kubeadm has tried to "
    "recover everything into the earlier state. Errors faced: "
)
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")


def plan(call: Call, target: str) -> str:
    """What `upgrade plan -o json` says: what is newer than the cluster, if anything is."""
    cluster = _administered(call)
    _check_health(call, cluster)
    current = f"v{cluster.version}"
    upgrades = []
    if Version.parse(target) > Version.parse(cluster.version):
        changes = [(name, current, f"v{target}") for name in ("kubeadm", *COMPONENTS)]
        changes.append(("etcd", etcd_tag(cluster.version), etcd_tag(target)))
        components = [
            {"name": name, "currentVersion": old, "newVersion": new} for name, old, new in changes
        ]
        upgrades.append({"description": f"v{target}", "components": components})
    return json.dumps(
        {
            "kind": "UpgradePlan",
            "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
            "availableUpgrades": upgrades,
            "configVersions": [],
        },
        indent=4,
    )


def _administered(call: Call) -> Cluster:
    if call.user != ROOT:
        raise KubeadmError(
            "error execution phase preflight: [preflight] Some fatal errors occurred:\n"
            "\t[ERROR IsPrivilegedUser]: user is not running as root"
        )
    return reachable(call)


def _check_health(call: Call, cluster: Cluster) -> None:
    """An upgrade does not begin while a control plane is not Ready."""
    clusters = call.host.shared.clusters
    lost = [
        node.name
        for node in clusters.nodes(cluster.uid)
        if node.role is Role.CONTROL_PLANE and not clusters.node_ready(cluster.uid, node.name)
    ]
    if lost:
        raise KubeadmError(
            "error execution phase preflight: [upgrade/health] FATAL: [preflight] Some fatal "
            "errors occurred:\n\t[ERROR ControlPlaneNodesReady]: there are NotReady control-planes "
            f"in the cluster: [{' '.join(lost)}]\n[preflight] If you know what you are doing, you "
            "can make a check non-fatal with `--ignore-preflight-errors=...`"
        )


def _check_skew(call: Call, cluster: Cluster, target: Version) -> None:
    """What kubeadm holds against the version asked for."""
    current = Version.parse(cluster.version)
    ours = Version.parse(kubernetes_version(call.host, "kubeadm") or "")
    asked = f'Specified version to upgrade to "v{target}"'
    wrong = []
    if target.minor > current.minor + 1:
        wrong.append(f"{asked} is too high; kubeadm can upgrade only 1 minor version at a time")
    if target.minor < current.minor - 1:
        wrong.append(
            f'Specified version to downgrade to "v{target}" is too low; kubeadm can downgrade '
            "only 1 minor version at a time"
        )
    if target.minor > ours.minor:
        wrong.append(
            f"{asked} is at least one minor release higher than the kubeadm minor release "
            f"({target.minor} > {ours.minor}). Such an upgrade is not supported"
        )
    elif target > ours:
        wrong.append(
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
        wrong.append(
            "There are kubelets in this cluster that are too old that have these versions "
            f"[{named}]"
        )
    if wrong:
        listed = "".join(f"\t- {each}\n" for each in wrong)
        raise KubeadmError(
            "error execution phase preflight: [upgrade/version] FATAL: the --version argument is "
            f"invalid due to these errors:\n\n{listed}\nCan be bypassed if you pass the --force "
            "flag"
        )


async def _check_apply(work: Work) -> None:
    cluster = _administered(work.call)
    _check_health(work.call, cluster)
    _check_skew(work.call, cluster, Version.parse(work.wanted.version))
    work.run.cluster = cluster.uid


async def _check_node(work: Work) -> None:
    state, clusters = work.host.state.kubeadm, work.host.shared.clusters
    if work.call.user != ROOT or state.kind not in NODES:
        raise KubeadmError(
            "error execution phase preflight: couldn't create a Kubernetes client from file "
            f'"{KUBELET_CONF}": failed to load admin kubeconfig: open {KUBELET_CONF}: no such '
            "file or directory"
        )
    cluster = clusters.get(state.cluster)
    if cluster is None or not clusters.alive(cluster.uid):
        raise KubeadmError(
            "error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: failed "
            "to get config map: dial tcp: connect: connection refused"
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
    host.disk.make_directories(BACKUPS, mode=0o700)
    old = {path: host.disk.read(path) for path in MANIFESTS}
    for path, text in old.items():
        host.disk.write(f"{BACKUPS}/{path.rpartition('/')[2]}", text, mode=0o600)
    target = work.wanted.version or cluster.version
    for path, text in manifests(target).items():
        host.disk.write(path, text, mode=0o600)
        name = path.rpartition("/")[2]
        await work.say(
            f'[upgrade/staticpods] Moving new manifest to "{path}" and backing up old manifest to '
            f'"{BACKUPS}/{name}"'
        )
    if work.fault is not None and work.fault.how is How.FAIL:
        for path, text in old.items():
            host.disk.write(path, text)
        raise KubeadmError(
            f"{_RECOVERED}static Pod hash for component kube-apiserver on Node "
            f"{host.state.kubeadm.name} did not change after 5m0s: {work.fault.message}"
        )
    await clusters.replace_control_plane(cluster.uid, host.address, target)


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
        Phase("addon", 0.1, ("[addons] Applied essential addon: kube-proxy",), _nothing),
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
