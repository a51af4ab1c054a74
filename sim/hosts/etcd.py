"""etcdctl on a simulated control-plane host, and the ways into its container: ctr and crictl."""

import hashlib
import json
import re
from collections.abc import Mapping

from sim.clusters import SimulatedClusters
from sim.clusters.cluster import Cluster
from sim.hosts.disk import ROOT
from sim.hosts.host import Kind
from sim.hosts.services import active_state
from sim.hosts.shell import Call, Command

_DATA = "/var/lib/etcd/"
_LABEL = re.compile(r'labels\."([^"]+)"==([^,]+)')
_SOCKETS = (
    "[unix:///run/containerd/containerd.sock unix:///run/crio/crio.sock "
    "unix:///var/run/cri-dockerd.sock]"
)
_UNCONFIGURED = (
    'level=warning msg="Config \\"/etc/crictl.yaml\\" does not exist, trying next: '
    '\\"/usr/bin/crictl.yaml\\""',
    f'level=warning msg="runtime connect using default endpoints: {_SOCKETS}. As the default '
    'settings are now deprecated, you should set the endpoint instead."',
)
"""What crictl says before anything else where nobody has configured it."""


def container(cluster: Cluster, address: str) -> str:
    """The id of the container that etcd runs in on that host."""
    return hashlib.sha256(f"etcd {cluster.uid} {address}".encode()).hexdigest()


def snapshot(clusters: SimulatedClusters, cluster: Cluster) -> bytes:
    """What a snapshot of the cluster's etcd holds: everything the API would show."""
    nodes = [node.model_dump(mode="json") for node in clusters.nodes(cluster.uid)]
    state = {"objects": clusters.objects(cluster.uid), "nodes": nodes}
    return json.dumps(state, sort_keys=True).encode()


def _local(call: Call) -> Cluster | None:
    """The cluster whose etcd runs on this host."""
    state = call.host.state.kubeadm
    if state.kind is not Kind.CONTROL_PLANE:
        return None
    return call.host.shared.clusters.get(state.cluster)


async def _crictl(call: Call) -> int:
    if call.user != ROOT:
        await call.complain(
            "validate service connection: dial unix /run/containerd/containerd.sock: connect: "
            "permission denied"
        )
        return 1
    for line in _UNCONFIGURED:
        await call.complain(line)
    cluster = _local(call)
    identity = container(cluster, call.host.address) if cluster else ""
    match call.words[1:]:
        case ["ps", *flags]:
            if cluster is not None and ("etcd" in flags or "--name=etcd" in flags):
                await call.say(identity)
            return 0
        case ["exec", *words]:
            words = [word for word in words if word not in ("-i", "-t", "-it")]
            if cluster is None or words[0] != identity:
                await call.complain(
                    f"execing command in container {words[0]}: rpc error: code = NotFound desc = "
                    f'failed to find container "{words[0]}" in store: not found'
                )
                return 1
            status = await call.execute(words[1:])
            if status:  # which of crictl's own is always 1
                await call.complain(
                    f"execing command in container {identity}: command terminated with exit code "
                    f"{status}"
                )
            return int(status != 0)
    await call.complain(f"crictl: no such command: {' '.join(call.words[1:2])}")
    return 1


async def _ctr(call: Call) -> int:
    """containerd's own command, as far as it leads into etcd's container."""
    if call.user != ROOT or active_state(call.host, "containerd") != "active":
        why = "permission denied" if call.user != ROOT else "no such file or directory"
        await call.complain(
            'ctr: failed to dial "/run/containerd/containerd.sock": connection error: desc = '
            '"transport: error while dialing: dial unix /run/containerd/containerd.sock: connect: '
            f'{why}"'
        )
        return 1
    match call.words[1:]:
        case ["-n" | "--namespace", "k8s.io", *words]:
            pass
        case words:
            words = []
    match words:
        case ["containers", "list", "-q" | "--quiet", chosen]:
            labels = dict(_LABEL.findall(chosen))
            for identity in _etcds(call, labels):
                await call.say(identity)
            return 0
        case ["tasks", "list" | "ls"]:
            await call.say("TASK" + " " * 64 + "PID     STATUS    ")
            for number, identity in enumerate(_etcds(call, {}), start=1208):
                await call.say(f"{identity}    {number}    RUNNING")
            return 0
        case ["tasks", "exec", "--exec-id", _, identity, *command]:
            if identity not in _etcds(call, {}):
                await call.complain(f'ctr: container "{identity}" in namespace "k8s.io": not found')
                return 1
            return await call.execute(command)
    await call.complain(f"ctr: no help topic for '{' '.join(words[:1])}'")
    return 1


def _etcds(call: Call, labels: Mapping[str, str]) -> list[str]:
    """The containers on the host that have these labels. All but kubeadm's etcd are left out."""
    cluster = _local(call)
    if cluster is None:
        return []
    own = {
        "io.kubernetes.container.name": "etcd",
        "io.kubernetes.pod.namespace": "kube-system",
        "io.kubernetes.pod.name": f"etcd-{call.host.state.kubeadm.name}",
    }
    return [container(cluster, call.host.address)] if labels.items() <= own.items() else []


async def _etcdctl(call: Call) -> int:
    cluster = _local(call)
    clusters = call.host.shared.clusters
    words = [word for word in call.words[1:] if not word.startswith("-") and word != "json"]
    if cluster is not None and words == ["endpoint", "status"]:
        return await _status(call, cluster)
    if cluster is None or not clusters.alive(cluster.uid):
        await call.complain("Error: context deadline exceeded")
        return 1
    if call.host.state.kubeadm.name not in cluster.members:
        await call.complain("Error: etcdserver: server stopped")
        return 1
    match words:
        case ["member", "list"]:
            await call.say(_members(cluster, as_json="json" in " ".join(call.words)))
            return 0
        case ["member", "remove", identity]:
            return await _remove(call, cluster, identity)
        case ["snapshot", "save", path]:
            return await _save(call, cluster, path)
        case ["endpoint", "health"]:
            await call.say("https://127.0.0.1:2379 is healthy: successfully committed proposal")
            return 0
    await call.complain(f'Error: unknown command "{" ".join(words)}" for "etcdctl"')
    return 1


async def _status(call: Call, cluster: Cluster) -> int:
    """Every member answers for itself; those that are down are complained of."""
    clusters = call.host.shared.clusters
    leads = clusters.alive(cluster.uid)
    given = [word.partition("=")[2] for word in call.words if word.startswith("--endpoints=")]
    at = {f"https://{member.address}:2379": member for member in cluster.members.values()}
    answers = []
    for endpoint in ",".join(given).split(","):
        member = at.get(endpoint)
        if member is None or not clusters.member_well(cluster.uid, member):
            await call.complain(
                f"Failed to get the status of endpoint {endpoint} (context deadline exceeded)"
            )
            continue
        known = {"leader": 1} if leads else {"errors": ["etcdserver: no leader"]}
        answers.append({"Endpoint": endpoint, "Status": {"header": {"cluster_id": 1}, **known}})
    await call.say(json.dumps(answers))
    return int(len(answers) < len(given[0].split(",")))


def _members(cluster: Cluster, *, as_json: bool) -> str:
    if as_json:
        shown = [
            {
                "ID": member.id,
                "name": member.name,
                "peerURLs": [f"https://{member.address}:2380"],
                "clientURLs": [f"https://{member.address}:2379"],
            }
            | ({"isLearner": True} if member.learner else {})
            for member in cluster.members.values()
        ]
        return json.dumps({"header": {"cluster_id": 1, "member_id": 1}, "members": shown})
    return "\n".join(
        f"{member.id:x}, started, {member.name}, https://{member.address}:2380, "
        f"https://{member.address}:2379, {str(member.learner).lower()}"
        for member in cluster.members.values()
    )


async def _remove(call: Call, cluster: Cluster, identity: str) -> int:
    clusters = call.host.shared.clusters
    try:
        number = int(identity, 16)
    except ValueError:
        await call.complain(
            f'Error: bad member ID arg (strconv.ParseUint: parsing "{identity}": invalid syntax), '
            "expecting ID in Hex"
        )
        return 5
    member = next((each for each in cluster.members.values() if each.id == number), None)
    if member is None:
        await call.complain("Error: etcdserver: member not found")
        return 1
    others = [
        each for each in cluster.members.values() if not each.learner and each.id != member.id
    ]
    started = [each for each in others if clusters.member_well(cluster.uid, each)]
    if not member.learner and len(started) <= len(others) // 2:
        await call.complain(
            "Error: etcdserver: re-configuration failed due to not enough started members"
        )
        return 1
    clusters.remove_member(cluster.uid, member.name)
    await call.say(f"Member {identity} removed from cluster {cluster.uid[:16]}")
    return 0


async def _save(call: Call, cluster: Cluster, path: str) -> int:
    """Write a snapshot. Of the host's files etcd's container sees its own directory alone."""
    if not path.startswith(_DATA):
        await call.complain(f"Error: could not open {path}.part: no such file or directory")
        return 1
    call.disk.write(path, snapshot(call.host.shared.clusters, cluster), mode=0o600)
    await call.say(f"Snapshot saved at {path}")
    return 0


COMMANDS: dict[str, Command] = {"crictl": _crictl, "ctr": _ctr, "etcdctl": _etcdctl}
