"""`kubeadm init`: a host becomes the first control-plane node of a cluster."""

import posixpath
from uuid import uuid4

import yaml

from domain.releases import Version
from sim.clusters.authority import kubeconfig
from sim.clusters.cluster import Founding
from sim.clusters.clusters import new_token
from sim.hosts.host import Kind
from sim.hosts.kubeadm.runs import (
    ADMIN_CONF,
    KubeadmError,
    Phase,
    Verb,
    Work,
    fatal,
    file_errors,
    host_errors,
)
from sim.hosts.shell import Call

MANIFESTS = tuple(
    f"/etc/kubernetes/manifests/{name}.yaml"
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
)
PKI = "/etc/kubernetes/pki"
KUBELET_CONF = "/etc/kubernetes/kubelet.conf"


def check(call: Call, port: int, version: str, wanted: str) -> None:
    """What `kubeadm init` and `kubeadm init phase preflight` refuse."""
    ours, target = Version.parse(version), Version.parse(wanted or version)
    if not ours.minor - 1 <= target.minor <= ours.minor:
        raise KubeadmError(
            f"this version of kubeadm only supports deploying clusters with the control plane "
            f"version >= {ours.major}.{ours.minor - 1}.0. Current version: v{target}"
        )
    errors = [*host_errors(call), *file_errors(call, MANIFESTS)]
    if call.host.state.kubeadm.kind is Kind.CONTROL_PLANE:
        errors.append(f"[ERROR Port-{port}]: Port {port} is in use")
    if call.disk.exists("/var/lib/etcd/member"):
        errors.append("[ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty")
    if errors:
        raise fatal(errors)


async def _preflight(work: Work) -> None:
    check(work.call, work.wanted.port, work.version, work.wanted.version)
    begun = work.host.disk.exists(f"{PKI}/ca.key")  # by an earlier run, whose authority stays
    known = work.host.state.kubeadm.cluster if begun else ""
    work.belong(work.run.cluster or known or uuid4().hex)


async def _certs(work: Work) -> None:
    wanted, host = work.wanted, work.host
    host.shared.clusters.found(
        Founding(
            uid=work.run.cluster,
            endpoint=wanted.endpoint_name or host.address,
            port=wanted.port,
            version=wanted.version or work.version,
            name=wanted.node_name,
            address=wanted.advertise or host.address,
            series=host.state.machine.series,
            alternatives=wanted.alternatives,
            pod_subnet=wanted.pod_subnet,
            service_subnet=wanted.service_subnet,
        )
    )
    write_certificates(work)


async def _kubeconfig(work: Work) -> None:
    write_admin_conf(work)


async def _manifests(work: Work) -> None:
    write_manifests(work)


async def _wait(work: Work) -> None:
    host = work.host
    await host.shared.clusters.host_started(host.address, work.run.cluster, work.wanted.node_name)


async def _nothing(_work: Work) -> None:
    """The simulated cluster has this by itself."""


def write_certificates(work: Work) -> None:
    disk, cluster = work.host.disk, work.cluster
    pair = cluster.servers[work.host.address]
    disk.make_directories(f"{PKI}/etcd")
    for name, text in (
        ("ca", cluster.authority),
        ("etcd/ca", cluster.authority),
        ("apiserver", pair),
        ("etcd/server", pair),
    ):
        disk.write(f"{PKI}/{name}.crt", text.certificate.encode())
        disk.write(f"{PKI}/{name}.key", text.key.encode(), mode=0o600)
    disk.write(f"{PKI}/sa.key", cluster.service_account_key.encode(), mode=0o600)


def write_admin_conf(work: Work) -> None:
    disk, cluster = work.host.disk, work.cluster
    disk.write(ADMIN_CONF, cluster.kubeconfig.encode(), mode=0o600)
    write_kubelet_conf(work)


def write_kubelet_conf(work: Work) -> None:
    cluster = work.cluster
    server = f"https://{cluster.endpoint}:{cluster.port}"
    user = f"system:node:{work.wanted.node_name}"
    text = kubeconfig(server, cluster.authority.certificate, user, cluster.admin)
    work.host.disk.make_directories("/etc/kubernetes")
    work.host.disk.write(KUBELET_CONF, text.encode(), mode=0o600)


def write_manifests(work: Work) -> None:
    disk = work.host.disk
    disk.make_directories("/etc/kubernetes/manifests")
    disk.make_directories("/var/lib/etcd/member", mode=0o700)
    for path, text in manifests(work.cluster.version).items():
        disk.write(path, text, mode=0o600)


def manifests(version: str) -> dict[str, bytes]:
    """The static pods of that version's control plane, by path."""
    texts = {}
    for path in MANIFESTS:
        name = posixpath.basename(path).removesuffix(".yaml")
        tag = etcd_tag(version) if name == "etcd" else f"v{version}"
        image = f"registry.k8s.io/{name}:{tag}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"containers": [{"name": name, "image": image}], "hostNetwork": True},
        }
        texts[path] = yaml.safe_dump(pod).encode()
    return texts


def etcd_tag(version: str) -> str:
    """etcd has versions of its own, one for each minor version of Kubernetes."""
    return f"3.5.{Version.parse(version).minor - 14}-0"


def _last_words(work: Work) -> list[str]:
    cluster = work.cluster
    words = ["", "Your Kubernetes control-plane has initialized successfully!", ""]
    if "--skip-token-print" not in work.flags:
        token = new_token()
        clusters = work.host.shared.clusters
        clusters.mint_token(cluster.uid, token, seconds=86400, description="kubeadm init")
        words.append(f"kubeadm join {cluster.endpoint}:{cluster.port} --token {token}")
    return words


INIT = Verb(
    name="init",
    phases=(
        Phase(
            "preflight",
            0.1,
            (
                "[init] Using Kubernetes version: v{version}",
                "[preflight] Running pre-flight checks",
            ),
            _preflight,
        ),
        Phase(
            "certs",
            0.1,
            (
                '[certs] Using certificateDir folder "/etc/kubernetes/pki"',
                '[certs] Generating "ca" certificate and key',
                '[certs] Generating "apiserver" certificate and key',
            ),
            _certs,
        ),
        Phase(
            "kubeconfig",
            0.1,
            (
                '[kubeconfig] Using kubeconfig folder "/etc/kubernetes"',
                '[kubeconfig] Writing "admin.conf" kubeconfig file',
            ),
            _kubeconfig,
        ),
        Phase(
            "etcd",
            0.1,
            (
                '[etcd] Creating static Pod manifest for local etcd in "/etc/kubernetes/manifests"',
                '[control-plane] Using manifest folder "/etc/kubernetes/manifests"',
            ),
            _manifests,
        ),
        Phase("kubelet-start", 0.1, ("[kubelet-start] Starting the kubelet",), _nothing),
        Phase(
            "wait-control-plane",
            0.4,
            (
                "[wait-control-plane] Waiting for the kubelet to boot up the control plane as "
                'static Pods from directory "/etc/kubernetes/manifests"',
            ),
            _wait,
        ),
        Phase(
            "upload-config",
            0.05,
            (
                "[api-check] The API server is healthy",
                '[upload-config] Storing the configuration used in ConfigMap "kubeadm-config" '
                'in the "kube-system" Namespace',
                "[upload-certs] Skipping phase. Please see --upload-certs",
                "[mark-control-plane] Marking the node {name} as control-plane",
            ),
            _nothing,
        ),
        Phase("addon", 0.05, ("[addons] Applied essential addon: CoreDNS",), _nothing),
    ),
    seconds=lambda work: work.host.shared.pace.initialise,
    becomes=lambda _work: Kind.CONTROL_PLANE,
    begun=Kind.PARTIAL,
    breaks_at="wait-control-plane",
    last_words=_last_words,
)
