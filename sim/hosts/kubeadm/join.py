"""`kubeadm join`: a host becomes a node of a cluster that is there."""

import hashlib

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from domain.releases import Version
from sim.clusters.cluster import Cluster, Joiner
from sim.hosts.host import Kind
from sim.hosts.kubeadm.init import (
    KUBELET_CONF,
    PKI,
    write_admin_conf,
    write_certificates,
    write_etcd_manifest,
    write_kubelet_conf,
    write_kubelet_files,
    write_manifests,
)
from sim.hosts.kubeadm.runs import (
    KubeadmError,
    Phase,
    Verb,
    Work,
    fatal,
    file_errors,
    host_errors,
    refused,
    runtime_errors,
    unprivileged,
)
from sim.hosts.services import kubernetes_version


async def _preflight(work: Work) -> None:
    call, wanted = work.call, work.wanted
    if not wanted.ca_hashes:
        raise KubeadmError(
            'discovery.bootstrapToken.caCertHashes: Invalid value: "": using token-based '
            "discovery without caCertHashes can be unsafe. Set unsafeSkipCAVerification to true "
            "to continue",
            3,
        )
    errors = [
        *unprivileged(call),
        *file_errors(call, (KUBELET_CONF,)),
        *host_errors(call),
        *(() if wanted.control_plane else file_errors(call, (f"{PKI}/ca.crt",))),
        *runtime_errors(call),
    ]
    if errors:
        raise fatal(errors)
    cluster = await _discover(work)
    kubelet = kubernetes_version(work.host, "kubelet") or work.version
    if Version.parse(kubelet).minor > Version.parse(cluster.version).minor:  # a patch may be newer
        raise fatal(
            [
                "[ERROR KubeletVersion]: the kubelet version is higher than the control plane "
                f'version. Kubelet version: "{kubelet}" Control plane version: '
                f'"{cluster.version}"'
            ]
        )
    work.belong(cluster.uid)


async def _discover(work: Work) -> Cluster:
    """The cluster behind the endpoint, if it and the token vouch for each other. What may still
    come is waited for; a stranger is sent away at once."""
    wanted, clusters = work.wanted, work.host.shared.clusters
    name, _, port = wanted.api_endpoint.rpartition(":")
    resolve = work.host.shared.resolve
    path = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    addresses = resolve(name) if resolve is not None else None
    if addresses is not None and not addresses:
        unknown = (
            f'Get "https://{wanted.api_endpoint}{path}?timeout=10s": dial tcp: lookup {name} on '
            "127.0.0.53:53: no such host"
        )
        raise await _in_vain(work, f"{_ASKING}{unknown}")
    cluster = clusters.by_endpoint(name)
    answers = (
        cluster is not None
        and str(cluster.port) == port
        and clusters.alive(cluster.uid)
        and (addresses is None or any(clusters.serves(cluster.uid, at) for at in addresses))
    )
    if cluster is None or not answers:
        at = next(iter(addresses or (cluster.servers if cluster else ())), name)
        raise await _in_vain(work, _ASKING + refused(wanted.api_endpoint, at, path))
    if not clusters.token_known(cluster.uid, wanted.token):
        raise await _in_vain(
            work,
            "could not find a JWS signature in the cluster-info ConfigMap for token ID "
            f'"{wanted.token.partition(".")[0]}"',
        )
    if not clusters.token_vouches(cluster.uid, wanted.token):
        raise _stranger(
            "failed to verify JWS signature of received cluster info object, can't trust this API "
            "Server"
        )
    if _fingerprint(cluster) not in wanted.ca_hashes:
        raise _stranger(
            "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys "
            f'"{_fingerprint(cluster)}" are pinned'
        )
    return cluster


_ASKING = "failed to request the cluster-info ConfigMap: "


async def _in_vain(work: Work, text: str) -> KubeadmError:
    """What is said once it was asked for long enough."""
    await work.host.shared.clock.sleep(work.host.shared.pace.discovery)
    return _stranger(text)


def _stranger(text: str) -> KubeadmError:
    return KubeadmError(
        f"error execution phase preflight: couldn't validate the identity of the API Server: {text}"
    )


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
    own = work.host.address
    for member in cluster.members.values():
        if member.learner and member.address == own:
            continue  # it is taken over
        if not clusters.member_well(cluster.uid, member):
            raise KubeadmError(
                "error execution phase check-etcd: etcd cluster is not healthy: failed to dial "
                f"endpoint https://{member.address}:2379 with maintenance client: context "
                "deadline exceeded"
            )
    clusters.sign_server(cluster.uid, _joiner(work), work.wanted.alternatives)
    write_certificates(work)
    write_admin_conf(work)
    write_manifests(work)


async def _kubelet_start(work: Work) -> None:
    """A Node of that name that is Ready keeps others out, even the host that was it. A run that a
    killed site carries on has made it itself."""
    clusters, cluster, name = work.host.shared.clusters, work.cluster, work.wanted.node_name
    known = clusters.node(cluster.uid, name)
    ours = (
        known is not None
        and known.address == work.host.address
        and known.joined >= work.run.started
    )
    if not work.wanted.control_plane:
        work.host.disk.make_directories(PKI)
        certificate = cluster.authority.certificate
        work.host.disk.write(f"{PKI}/ca.crt", certificate.encode())
    if clusters.node_ready(cluster.uid, name) and not ours:
        raise KubeadmError(
            f'error execution phase kubelet-start: a Node with name "{name}" and status "Ready" '
            "already exists in the cluster. You must delete the existing Node or change the name "
            "of this new joining Node"
        )
    write_kubelet_conf(work)
    write_kubelet_files(work)
    if not work.wanted.control_plane:
        await clusters.join_worker(cluster.uid, _joiner(work))


async def _etcd(work: Work) -> None:
    """The learner gets its vote last."""
    if not work.wanted.control_plane:
        return
    clusters, cluster = work.host.shared.clusters, work.cluster
    write_etcd_manifest(work)
    await clusters.join_control_plane(cluster.uid, _joiner(work), work.wanted.alternatives)


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
