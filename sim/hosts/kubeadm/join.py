"""`kubeadm join`: a host becomes a node of a cluster that is there."""

import hashlib

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from domain.releases import Version
from sim.clusters.cluster import Cluster, Joiner
from sim.hosts.host import Kind
from sim.hosts.kubeadm.init import (
    KUBELET_CONF,
    MANIFESTS,
    PKI,
    write_admin_conf,
    write_certificates,
    write_kubelet_conf,
    write_manifests,
)
from sim.hosts.kubeadm.runs import KubeadmError, Phase, Verb, Work, fatal, file_errors, host_errors
from sim.hosts.services import kubernetes_version

_STRANGER = "couldn't validate the identity of the API Server: "


async def _preflight(work: Work) -> None:
    call, wanted = work.call, work.wanted
    if not wanted.ca_hashes:
        raise KubeadmError(
            'discovery.bootstrapToken.caCertHashes: Invalid value: "": using token-based '
            "discovery without caCertHashes can be unsafe. Set unsafeSkipCAVerification to true "
            "to continue",
            3,
        )
    in_the_way = (KUBELET_CONF, f"{PKI}/ca.crt", *(MANIFESTS if wanted.control_plane else ()))
    errors = [*host_errors(call), *file_errors(call, in_the_way)]
    if errors:
        raise fatal(errors)
    cluster = _discover(work)
    kubelet = kubernetes_version(work.host, "kubelet") or work.version
    if Version.parse(kubelet) > Version.parse(cluster.version):
        raise fatal(
            [
                "[ERROR KubeletVersion]: the kubelet version is higher than the control plane "
                f'version. Kubelet version: "{kubelet}" Control plane version: '
                f'"{cluster.version}"'
            ]
        )
    work.belong(cluster.uid)


def _discover(work: Work) -> Cluster:
    """The cluster behind the endpoint, if it and the token vouch for each other."""
    wanted, clusters = work.wanted, work.host.shared.clusters
    name, _, port = wanted.api_endpoint.rpartition(":")
    resolve = work.host.shared.resolve
    url = f"https://{wanted.api_endpoint}/api/v1/namespaces/kube-public/configmaps/cluster-info"
    asking = f'{_STRANGER}failed to request the cluster-info ConfigMap: Get "{url}": '
    addresses = resolve(name) if resolve is not None else None
    if addresses is not None and not addresses:
        raise _preflight_error(f"{asking}dial tcp: lookup {name}: no such host")
    cluster = clusters.by_endpoint(name)
    answers = (
        cluster is not None
        and str(cluster.port) == port
        and clusters.alive(cluster.uid)
        and (addresses is None or any(clusters.serves(cluster.uid, at) for at in addresses))
    )
    if cluster is None or not answers:
        raise _preflight_error(f"{asking}dial tcp {name}:{port}: connect: connection refused")
    if _fingerprint(cluster) not in wanted.ca_hashes:
        raise _preflight_error(
            f"{_STRANGER}cluster CA found in cluster-info ConfigMap is invalid: none of the "
            f'public keys "{_fingerprint(cluster)}" are pinned'
        )
    if not clusters.token_valid(cluster.uid, wanted.token):
        raise _preflight_error(
            f"{_STRANGER}could not find a JWS signature in the cluster-info ConfigMap for token "
            f'ID "{wanted.token.partition(".")[0]}"'
        )
    return cluster


async def _prepare(work: Work) -> None:
    """Only a control-plane node has certificates to fetch and an etcd to look at."""
    if not work.wanted.control_plane:
        return
    clusters, cluster = work.host.shared.clusters, work.cluster
    phase = "error execution phase control-plane-prepare/download-certs: error downloading certs: "
    opens = clusters.certs_open_with(cluster.uid, work.wanted.certificate_key)
    if opens is None:
        raise KubeadmError(
            f'{phase}error downloading the secret: Secret "kubeadm-certs" was not found in the '
            '"kube-system" Namespace. This Secret might have expired. Please, run `kubeadm init '
            "phase upload-certs --upload-certs` on a control plane to generate a new one"
        )
    if not opens:
        raise KubeadmError(
            f"{phase}error decoding secret data with provided key: cipher: message "
            "authentication failed"
        )
    for member in cluster.members.values():
        if not clusters.member_well(cluster.uid, member):
            raise KubeadmError(
                "error execution phase check-etcd: etcd cluster is not healthy: failed to dial "
                f"endpoint https://{member.address}:2379 with maintenance client: context "
                "deadline exceeded"
            )


async def _kubelet_start(work: Work) -> None:
    clusters, cluster, name = work.host.shared.clusters, work.cluster, work.wanted.node_name
    known = clusters.node(cluster.uid, name)
    ours = known is not None and known.address == work.host.address
    if clusters.node_ready(cluster.uid, name) and not ours:
        raise KubeadmError(
            f'error execution phase kubelet-start: a Node with name "{name}" and status "Ready" '
            "already exists in the cluster. You must delete the existing Node or change the name "
            "of this new joining Node"
        )
    if not work.wanted.control_plane:
        await clusters.join_worker(cluster.uid, _joiner(work))
        work.host.disk.make_directories(PKI)
        certificate = cluster.authority.certificate
        work.host.disk.write(f"{PKI}/ca.crt", certificate.encode())
        write_kubelet_conf(work)


async def _etcd(work: Work) -> None:
    """The learner gets its vote last."""
    if not work.wanted.control_plane:
        return
    clusters, cluster = work.host.shared.clusters, work.cluster
    await clusters.join_control_plane(cluster.uid, _joiner(work), work.wanted.alternatives)
    write_certificates(work)
    write_admin_conf(work)
    write_manifests(work)


async def _promote(work: Work) -> None:
    if work.wanted.control_plane:
        work.host.shared.clusters.promote(work.run.cluster, work.wanted.node_name)


def _joiner(work: Work) -> Joiner:
    return Joiner(
        name=work.wanted.node_name,
        address=work.host.address,
        version=kubernetes_version(work.host, "kubelet") or work.version,
        series=work.host.state.machine.series,
        taints=work.wanted.taints,
    )


def _fingerprint(cluster: Cluster) -> str:
    certificate = x509.load_pem_x509_certificate(cluster.authority.certificate.encode())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(key).hexdigest()


def _preflight_error(text: str) -> KubeadmError:
    return KubeadmError(f"error execution phase preflight: {text}")


def _last_words(work: Work) -> list[str]:
    if work.wanted.control_plane:
        return ["This node has joined the cluster and a new control plane instance was created:"]
    return ["This node has joined the cluster:"]


JOIN = Verb(
    name="join",
    phases=(
        Phase(
            "preflight",
            0.2,
            (
                "[preflight] Running pre-flight checks",
                "[preflight] Reading configuration from the cluster...",
            ),
            _preflight,
        ),
        Phase("control-plane-prepare", 0.2, (), _prepare),
        Phase(
            "kubelet-start",
            0.2,
            (
                "[kubelet-start] Writing kubelet configuration to file "
                '"/var/lib/kubelet/config.yaml"',
                "[kubelet-start] Starting the kubelet",
            ),
            _kubelet_start,
        ),
        Phase(
            "control-plane-join",
            0.2,
            ("[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap",),
            _etcd,
        ),
        Phase("wait-control-plane", 0.2, ("",), _promote),
    ),
    seconds=lambda work: work.host.shared.pace.join,
    becomes=lambda work: Kind.CONTROL_PLANE if work.wanted.control_plane else Kind.WORKER,
    begun=Kind.PARTIAL,
    breaks_at="kubelet-start",
    last_words=_last_words,
)
