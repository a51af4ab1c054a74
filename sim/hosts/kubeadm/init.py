"""`kubeadm init`: a host becomes the first control-plane node of a cluster."""

import posixpath
from uuid import uuid4

import yaml

from domain.releases import Version
from sim.clusters.authority import client, kubeconfig, public, server
from sim.clusters.cluster import Founding
from sim.clusters.tokens import new_token
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
    runtime_errors,
    unprivileged,
)
from sim.hosts.shell import Call

MANIFESTS = tuple(
    f"/etc/kubernetes/manifests/{name}.yaml"
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
)
ETCD_MANIFEST = MANIFESTS[-1]
KUBERNETES = "/etc/kubernetes"
PKI = "/etc/kubernetes/pki"
_ETCD = {
    **{29: "3.5.10-0", 30: "3.5.15-0", 31: "3.5.15-0", 32: "3.5.16-0"},
    **{33: "3.5.21-0", 34: "3.6.4-0", 35: "3.6.5-0"},
}
KUBELET_CONF = "/etc/kubernetes/kubelet.conf"


_CONTROL_PORTS = (10259, 10257)
_ETCD_PORTS = (2379, 2380)


async def check(call: Call, port: int, version: str, wanted: str) -> None:
    """What `kubeadm init` and `kubeadm init phase preflight` refuse, in their order. A version
    that is newer than kubeadm is only warned of."""
    ours, target = Version.parse(version), Version.parse(wanted or version)
    if target.minor < ours.minor - 1:
        raise KubeadmError(
            f"this version of kubeadm only supports deploying clusters with the control plane "
            f"version >= {ours.major}.{ours.minor - 1}.0. Current version: v{target}"
        )
    if target.minor > ours.minor:
        await call.complain(
            "\t[WARNING KubernetesVersion]: Kubernetes version is greater than kubeadm version. "
            f"Please consider to upgrade kubeadm. Kubernetes version: {target}. Kubeadm version: "
            f"{ours.major}.{ours.minor}.x"
        )
    controls = call.host.state.kubeadm.kind is Kind.CONTROL_PLANE
    errors = [
        *unprivileged(call),
        *(_in_use(port, *_CONTROL_PORTS) if controls else ()),
        *file_errors(call, MANIFESTS),
        *host_errors(call),
        *(_in_use(*_ETCD_PORTS) if controls else ()),
    ]
    if call.disk.exists("/var/lib/etcd/member"):
        errors.append("[ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty")
    errors += runtime_errors(call)
    if errors:
        raise fatal(errors)


def _in_use(*ports: int) -> list[str]:
    return [f"[ERROR Port-{port}]: Port {port} is in use" for port in ports]


async def _preflight(work: Work) -> None:
    await check(work.call, work.wanted.port, work.version, work.wanted.version)
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
    write_certificates(work, public_mode=0o600)


async def _kubeconfig(work: Work) -> None:
    write_admin_conf(work)
    write_kubeconfig(work, f"{KUBERNETES}/super-admin.conf", "kubernetes-super-admin")
    write_kubelet_conf(work)


async def _manifests(work: Work) -> None:
    write_manifests(work)
    write_etcd_manifest(work)
    write_kubelet_files(work)


async def _wait(work: Work) -> None:
    host = work.host
    await host.shared.clusters.host_started(host.address, work.run.cluster, work.wanted.node_name)


async def _nothing(_work: Work) -> None:
    """The simulated cluster has this by itself."""


def write_certificates(work: Work, *, public_mode: int = 0o644) -> None:
    """Three authorities, and what each of them has signed for this host. Of the service accounts'
    key the public half lies there too, to be read by all where a host has joined."""
    disk, cluster, name = work.host.disk, work.cluster, work.wanted.node_name
    etcd, proxy = cluster.etcd_root, cluster.proxy_root
    at = (name, "localhost", work.host.address, "127.0.0.1")
    clients = "kubeadm:cluster-admins"
    disk.make_directories(f"{PKI}/etcd")
    for path, pair in (
        ("ca", cluster.authority),
        ("apiserver", cluster.servers[work.host.address]),
        ("apiserver-kubelet-client", client(cluster.authority, "kubelet-client", clients)),
        ("front-proxy-ca", proxy),
        ("front-proxy-client", client(proxy, "front-proxy-client", "")),
        ("etcd/ca", etcd),
        ("etcd/server", server(etcd, name, at, also_calls=True)),
        ("etcd/peer", server(etcd, name, at, also_calls=True)),
        ("etcd/healthcheck-client", client(etcd, "kube-etcd-healthcheck-client", "")),
        ("apiserver-etcd-client", client(etcd, "kube-apiserver-etcd-client", "")),
    ):
        disk.write(f"{PKI}/{path}.crt", pair.certificate.encode())
        disk.write(f"{PKI}/{path}.key", pair.key.encode(), mode=0o600)
    disk.write(f"{PKI}/sa.key", cluster.service_account_key.encode(), mode=0o600)
    disk.write(f"{PKI}/sa.pub", public(cluster.service_account_key).encode(), mode=public_mode)


def write_admin_conf(work: Work) -> None:
    """The kubeconfigs of those who govern a cluster from this host."""
    work.host.disk.make_directories(KUBERNETES)
    work.host.disk.write(ADMIN_CONF, work.cluster.kubeconfig.encode(), mode=0o600)
    for user in ("controller-manager", "scheduler"):
        write_kubeconfig(work, f"{KUBERNETES}/{user}.conf", f"system:kube-{user}")


def write_kubelet_conf(work: Work) -> None:
    write_kubeconfig(work, KUBELET_CONF, f"system:node:{work.wanted.node_name}")


def write_kubeconfig(work: Work, path: str, user: str) -> None:
    cluster = work.cluster
    where = f"https://{cluster.endpoint}:{cluster.port}"
    text = kubeconfig(where, cluster.authority.certificate, user, cluster.admin)
    work.host.disk.make_directories(KUBERNETES)
    work.host.disk.write(path, text.encode(), mode=0o600)


def write_kubelet_files(work: Work) -> None:
    """What the kubelet is started with."""
    disk = work.host.disk
    disk.make_directories("/var/lib/kubelet/pki")
    disk.write("/var/lib/kubelet/config.yaml", b"kind: KubeletConfiguration\n")
    disk.write("/var/lib/kubelet/kubeadm-flags.env", b'KUBELET_KUBEADM_ARGS=""\n')


def write_manifests(work: Work) -> None:
    """The static pods but for etcd's, which comes last where a host joins."""
    work.host.disk.make_directories("/etc/kubernetes/manifests")
    for path, text in manifests(work.cluster.version).items():
        if path != ETCD_MANIFEST:
            work.host.disk.write(path, text, mode=0o600)


def write_etcd_manifest(work: Work) -> None:
    work.host.disk.make_directories("/var/lib/etcd/member", mode=0o700)
    text = manifests(work.cluster.version)[ETCD_MANIFEST]
    work.host.disk.write(ETCD_MANIFEST, text, mode=0o600)


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
    """etcd has versions of its own, one for each version of Kubernetes; later patches of it may
    take on others."""
    minor = Version.parse(version).minor
    return _ETCD[max(min(_ETCD), min(minor, max(_ETCD)))]


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
