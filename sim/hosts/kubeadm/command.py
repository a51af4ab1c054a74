"""kubeadm as it is called: which verb, with which flags, and what the short ones do."""

import getopt
import json
import re
import secrets
from collections.abc import Awaitable, Callable

from sim.clusters.tokens import new_token
from sim.faults import How
from sim.hosts.host import Kind
from sim.hosts.kubeadm.config import Wanted
from sim.hosts.kubeadm.init import INIT, check
from sim.hosts.kubeadm.join import JOIN
from sim.hosts.kubeadm.runs import (
    ADMIN_CONF,
    KubeadmError,
    Phase,
    Verb,
    Work,
    administered,
    befallen,
    complain,
    configuration,
    refused,
    run,
    trouble,
    unprivileged,
)
from sim.hosts.kubeadm.upgrade import APPLY, CONFIG_MAP, NODE, plan
from sim.hosts.services import kubernetes_version
from sim.hosts.shell import Call, Command

Flags = dict[str, str]

ARGUMENT = "argument"
"""Among the flags, the word that follows the verb."""

_VALUED = ("config", "ttl", "description", "certificate-key", "token", "node-name", "output")
_BARE = (
    "force",
    "kubeconfig=",
    "print-join-command",
    "skip-certificate-key-print",
    "skip-token-print",
    "upload-certs",
    "ignore-preflight-errors=",
    "cri-socket=",
    "control-plane",
    "v=",
    "yes",
)
_EMPTIED = ("/etc/kubernetes/manifests", "/var/lib/kubelet", "/etc/kubernetes/pki", "/var/lib/etcd")
"""Folders of which reset takes what is in them. Others stay: what an upgrade kept, and the pods'
network."""

_CONFS = tuple(
    f"/etc/kubernetes/{name}.conf"
    for name in (
        *("admin", "super-admin", "kubelet", "bootstrap-kubelet", "controller-manager"),
        "scheduler",
    )
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


async def _member(work: Work) -> None:
    """Take the host's etcd member out if that can be done. If not, reset goes on all the same, and
    says no more than it could not ask."""
    state, clusters = work.host.state.kubeadm, work.host.shared.clusters
    cluster = clusters.get(state.cluster)
    if cluster is None or not work.host.disk.exists(ADMIN_CONF):
        return
    if work.fault is not None and work.fault.how is How.FAIL:
        await work.call.complain(
            "[reset] Failed to remove etcd member: error syncing endpoints with etcd: context "
            "deadline exceeded, please manually remove this etcd member using etcdctl"
        )
    elif clusters.alive(cluster.uid):
        clusters.remove_member(cluster.uid, state.name)
    else:
        endpoint = f"{cluster.endpoint}:{cluster.port}"
        why = refused(endpoint, work.host.address, CONFIG_MAP)
        await work.call.complain(
            "[reset] Unable to fetch the kubeadm-config ConfigMap from cluster: failed to get "
            f"config map: {why}\n"
            "[reset] No kubeadm config, using etcd pod spec to get data directory"
        )


async def _clean(work: Work) -> None:
    disk = work.host.disk
    for folder in _EMPTIED:
        for name in disk.listing(folder) if disk.exists(folder) else ():
            disk.remove_tree(f"{folder}/{name}")
    for path in _CONFS:
        if disk.exists(path):
            disk.remove_tree(path)
    await work.host.shared.clusters.wipe_host(work.host.address)
    state = work.host.state.kubeadm
    state.cluster = state.name = ""


async def _privileged(work: Work) -> None:
    if errors := unprivileged(work.call):
        raise KubeadmError(f"error execution phase preflight: {errors[0]}")


RESET = Verb(
    name="reset",
    phases=(
        Phase("preflight", 0, ("[preflight] Running pre-flight checks",), _privileged),
        Phase("remove-etcd-member", 0, (), _member),
        Phase(
            "cleanup-node",
            0,
            (
                "[reset] Stopping the kubelet service",
                '[reset] Unmounting mounted directories in "/var/lib/kubelet"',
                "[reset] Deleting contents of directories: [/etc/kubernetes/manifests "
                "/var/lib/kubelet /etc/kubernetes/pki]",
                f"[reset] Deleting files: [{' '.join(_CONFS)}]",
                "The reset process does not clean CNI configuration. To do so, you must remove "
                "/etc/cni/net.d",
            ),
            _clean,
        ),
    ),
    seconds=lambda _work: 0,
    becomes=lambda _work: Kind.RESET,
    begun=None,
    breaks_at="",
    last_words=lambda _work: [],
)


async def _init(call: Call, flags: Flags) -> int:
    return await run(call, INIT, configuration(call, flags), flags)


async def _join(call: Call, flags: Flags) -> int:
    return await run(call, JOIN, configuration(call, flags), flags)


async def _reset(call: Call, flags: Flags) -> int:
    if "--force" not in flags and "-f" not in flags and b"y" not in (await call.stdin()).lower():
        raise KubeadmError("error execution phase preflight: aborted reset operation")
    return await run(call, RESET, configuration(call, {}), flags)


async def _preflight(call: Call, flags: Flags) -> int:
    wanted = configuration(call, flags)
    await call.say("[preflight] Running pre-flight checks")
    version = kubernetes_version(call.host, "kubeadm") or ""
    await check(call, wanted.port, version, wanted.version)
    return 0


async def _upload_certs(call: Call, flags: Flags) -> int:
    if "--upload-certs" not in flags:
        await call.say("[upload-certs] Skipping phase. Please see --upload-certs")
        return 0
    key = flags.get("--certificate-key") or configuration(call, flags).certificate_key
    key = key or secrets.token_hex(32)
    cluster = administered(call)
    if trouble(call, cluster, "", "forbidden"):
        raise KubeadmError(
            "error execution phase upload-certs: could not bootstrap the admin user in file "
            "admin.conf: unable to create ClusterRoleBinding: client rate limiter Wait returned an "
            "error: rate: Wait(n=1) would exceed context deadline"
        )
    call.host.shared.clusters.upload_certs(cluster.uid, key)
    await call.say(
        '[upload-certs] Storing the certificates in Secret "kubeadm-certs" in the "kube-system" '
        "Namespace"
    )
    if "--skip-certificate-key-print" not in flags:
        await call.say(f"[upload-certs] Using certificate key:\n{key}")
    return 0


async def _token_create(call: Call, flags: Flags) -> int:
    cluster = administered(call, "/root/.kube/config")
    token = new_token()
    forbidden = (
        'secrets is forbidden: User "kubernetes-admin" cannot create resource "secrets" in API '
        'group "" in the namespace "kube-system"'
    )
    if why := trouble(call, cluster, "/api/v1/namespaces/kube-system/secrets", forbidden):
        raise KubeadmError(
            "failed to create or update bootstrap token with name bootstrap-token-"
            f"{token.partition('.')[0]}: unable to create Secret: {why.replace('Get', 'Post', 1)}"
        )
    seconds = _duration(flags.get("--ttl", "24h"))
    description = flags.get("--description", "")
    call.host.shared.clusters.mint_token(
        cluster.uid, token, seconds=seconds, description=description
    )
    await call.say(token)
    return 0


async def _upgrade_plan(call: Call, flags: Flags) -> int:
    version = flags.get(ARGUMENT) or kubernetes_version(call.host, "kubeadm") or ""
    planned = plan(call, version.removeprefix("v"))
    if planned and "json" not in (flags.get("--output"), flags.get("-o")):
        planned = "You can now apply the upgrade by executing the following command:"
    if planned:  # nothing at all is said where nothing is newer
        await call.say(planned)
    return 0


async def _upgrade_apply(call: Call, flags: Flags) -> int:
    if not flags.get(ARGUMENT):
        raise KubeadmError("missing one or more required arguments. Required arguments: [version]")
    if flags.keys().isdisjoint({"-y", "--yes", "-f", "--force"}) and (
        b"y" not in (await call.stdin()).lower()
    ):
        raise KubeadmError("won't proceed; the user didn't answer (Y|y) in order to continue")
    return await run(call, APPLY, _own(call, flags[ARGUMENT].removeprefix("v")), flags)


async def _upgrade_node(call: Call, flags: Flags) -> int:
    return await run(call, NODE, _own(call), flags)


def _own(call: Call, version: str = "") -> Wanted:
    """A node that is there already, and what it is to become."""
    return Wanted(node_name=call.host.state.kubeadm.name or call.host.name, version=version)


async def _renew_admin(call: Call, _flags: Flags) -> int:
    """Sign the client certificate in admin.conf anew, with the authority that lies on the host."""
    cluster = call.host.shared.clusters.get(call.host.state.kubeadm.cluster)
    if cluster is None or not call.host.disk.exists(ADMIN_CONF):
        await call.say(
            "MISSING! certificate embedded in the kubeconfig file for the admin to use and for "
            "kubeadm itself"
        )
        return 0
    call.host.shared.clusters.renew_admin(cluster.uid)
    call.host.disk.write(ADMIN_CONF, cluster.kubeconfig.encode(), mode=0o600)
    await call.say(
        "certificate embedded in the kubeconfig file for the admin to use and for kubeadm itself "
        "renewed"
    )
    return 0


async def _version(call: Call, flags: Flags) -> int:
    version = f"v{kubernetes_version(call.host, 'kubeadm')}"
    match flags.get("--output", flags.get("-o", "")):
        case "short":
            await call.say(version)
        case "json":
            await call.say(json.dumps({"clientVersion": {"gitVersion": version}}))
        case _:
            await call.say(f'kubeadm version: &version.Info{{GitVersion:"{version}"}}')
    return 0


VERBS: dict[str, Callable[[Call, Flags], Awaitable[int]]] = {
    "certs renew admin.conf": _renew_admin,
    "init": _init,
    "join": _join,
    "reset": _reset,
    "init phase preflight": _preflight,
    "init phase upload-certs": _upload_certs,
    "token create": _token_create,
    "upgrade apply": _upgrade_apply,
    "upgrade node": _upgrade_node,
    "upgrade plan": _upgrade_plan,
    "version": _version,
}
RUNS = frozenset({"init", "join", "reset", APPLY.name, NODE.name})
"""The verbs that change the host. They ask for their faults themselves, once they are recorded."""


async def kubeadm(call: Call) -> int:
    if kubernetes_version(call.host, "kubeadm") is None:
        await call.complain("sh: 1: kubeadm: not found")
        return 127
    names = [f"{name}=" for name in _VALUED]
    try:
        given, words = getopt.gnu_getopt(call.words[1:], "fo:v:y", [*names, *_BARE])
    except getopt.GetoptError as error:
        await call.complain(f"unknown flag: {error}")
        return 1
    verb = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in VERBS), "")
    if not verb:
        await call.complain(f'unknown command "{" ".join(words)}" for "kubeadm"')
        return 1
    counts = call.host.state.kubeadm.counts
    counts[verb] = counts.get(verb, 0) + 1
    call.host.keep()
    try:
        if verb not in RUNS:
            await _may_go_on(call, verb)
        argument = words[len(verb.split()) :][:1]
        return await VERBS[verb](call, dict(given) | {ARGUMENT: "".join(argument)})
    except KubeadmError as error:
        await complain(call, error)
        return error.code


async def _may_go_on(call: Call, verb: str) -> None:
    fault = befallen(call.host, verb)
    if fault is None:
        return
    match fault.how:
        case How.REFUSE | How.FAIL:
            raise KubeadmError(fault.message, fault.status if fault.status < 256 else 1)
        case How.SLOW:
            await call.host.shared.clock.sleep(fault.seconds)
        case How.DROP:
            call.host.drop_connections()
        case How.REBOOT:
            call.host.shared.reboot(call.host.id)


def _duration(text: str) -> float | None:
    """Seconds of a Go duration; None for 0, which means for ever."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _SPAN.findall(text)) or None


COMMANDS: dict[str, Command] = {"kubeadm": kubeadm}
