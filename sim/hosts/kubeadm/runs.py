"""kubeadm on a simulated host: its verbs, how a run goes through its phases, and how it ends.

A run is recorded before its first line, so that a site that is killed finds it again: one that
systemd was running is carried on, any other has died with its shell."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from sim.clusters.cluster import Cluster
from sim.faults import Fault, How
from sim.hosts.disk import ROOT
from sim.hosts.host import NODES, Host, Kind, Run
from sim.hosts.kubeadm.config import ConfigError, Wanted, read
from sim.hosts.services import active_state, kubernetes_version
from sim.hosts.shell import Call

ADMIN_CONF = "/etc/kubernetes/admin.conf"
_TRACE = "To see the stack trace of this error execute with --v=5 or higher"


_PREFLIGHT = "error execution phase preflight: "
_NO_RUNTIME = (
    "failed to create new CRI runtime service: validate service connection: validate CRI v1 "
    'runtime API for endpoint "unix:///run/containerd/containerd.sock": rpc error: code = '
    'Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix '
    '/run/containerd/containerd.sock: connect: no such file or directory"'
)


class KubeadmError(Exception):
    """A run ends here, with this complaint and this exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


@dataclass
class Work:
    """One run of kubeadm, and what it is to do."""

    call: Call
    run: Run
    wanted: Wanted
    flags: dict[str, str]
    fault: Fault | None = None
    printed: int = 0

    @property
    def host(self) -> Host:
        return self.call.host

    @property
    def version(self) -> str:
        """kubeadm's own."""
        return kubernetes_version(self.host, "kubeadm") or ""

    @property
    def cluster(self) -> Cluster:
        """The cluster that this run makes or joins."""
        cluster = self.host.shared.clusters.get(self.run.cluster)
        if cluster is None:
            raise KubeadmError(f"cluster {self.run.cluster} is gone")
        return cluster

    def belong(self, cluster_uid: str) -> None:
        """From here on the host has traces of that cluster."""
        self.run.cluster = cluster_uid
        state = self.host.state.kubeadm
        state.cluster, state.name = cluster_uid, self.wanted.node_name

    async def say(self, line: str) -> None:
        await self._meet()
        await self.call.say(line)
        self.printed += 1
        await self._meet()

    async def _meet(self) -> None:
        """What befalls the run at this line of its output."""
        if self.fault is None or self.printed < self.fault.line:
            return
        if self.fault.how is How.DROP:
            self.fault = None
            self.host.drop_connections()
        elif self.fault.how is How.REBOOT:
            self.fault = None
            self.host.shared.reboot(self.host.id)
            await asyncio.Event().wait()


class Phase(NamedTuple):
    """A part of a run. Doing it again after it was done changes nothing."""

    name: str
    share: float
    """How much of the run's time it takes."""
    lines: tuple[str, ...]
    act: Callable[[Work], Awaitable[None]]


class Verb(NamedTuple):
    """A way to run kubeadm that changes what the host is."""

    name: str
    phases: tuple[Phase, ...]
    seconds: Callable[[Work], float]
    becomes: Callable[[Work], Kind]
    begun: Kind | None
    """What the host is while the run is past its checks. None: what it was."""
    breaks_at: str
    """The phase in which a run fails that is made to fail."""
    last_words: Callable[[Work], list[str]]


async def run(call: Call, verb: Verb, wanted: Wanted, flags: dict[str, str]) -> int:
    """Take the host through the verb's phases."""
    host, state = call.host, call.host.state.kubeadm
    current = _open_run(host, verb.name, call.unit)
    resumed = current is not None
    if current is None:
        under_way = [run.verb for run in state.runs if run.ended is None]
        if under_way:
            host.note(f"kubeadm {verb.name} while kubeadm {under_way[0]} runs")
        current = Run(verb=verb.name, started=host.shared.clock.now(), unit=call.unit)
        state.runs.append(current)
        host.keep()
    work = Work(call, current, wanted, flags)
    try:
        if not resumed:
            work.fault = await _befall(work)
        await _phases(work, verb)
        for line in verb.last_words(work):
            await work.say(line)
    except (KubeadmError, BrokenPipeError) as error:
        return await _ended_badly(work, error)
    _end(work, "ok")
    if work.fault is not None and work.fault.how is How.HALF:
        host.drop_connections()
    return 0


async def _phases(work: Work, verb: Verb) -> None:
    host, state = work.host, work.host.state.kubeadm
    for number, phase in enumerate(verb.phases, start=1):
        if number <= work.run.phase:
            continue
        for line in phase.lines:
            await work.say(line.format(version=work.version, name=work.wanted.node_name))
        await host.shared.clock.sleep(phase.share * verb.seconds(work))
        fault = work.fault
        if fault is not None and fault.how is How.FAIL and phase.name == verb.breaks_at:
            raise KubeadmError(f"error execution phase {phase.name}: {fault.message}")
        try:
            await phase.act(work)
        except OSError as error:
            why = f"write {error.filename}: {str(error.strerror).lower()}"
            raise KubeadmError(f"error execution phase {phase.name}: {why}") from error
        work.run.phase = number
        last = number == len(verb.phases)
        state.kind = verb.becomes(work) if last else verb.begun or state.kind
        host.keep()


async def _befall(work: Work) -> Fault | None:
    """Ask whether this run goes wrong, and let happen what happens before it begins."""
    fault = befallen(work.host, work.run.verb)
    if fault is None:
        return None
    match fault.how:
        case How.REFUSE:
            raise KubeadmError(fault.message, fault.status if fault.status < 256 else 1)
        case How.SLOW:
            await work.host.shared.clock.sleep(fault.seconds)
        case How.HANG:
            await asyncio.Event().wait()
    return fault


def befallen(host: Host, what: str) -> Fault | None:
    return host.shared.faults.meet(f"kubeadm {host.id} {what}")


def _open_run(host: Host, verb: str, unit: str) -> Run | None:
    """The run that a unit was in the middle of when the site was killed."""
    for run in host.state.kubeadm.runs:
        if run.ended is None and unit and (run.verb, run.unit) == (verb, unit):
            return run
    return None


async def _ended_badly(work: Work, error: KubeadmError | BrokenPipeError) -> int:
    state = work.host.state.kubeadm
    if not work.run.phase and state.kind in (Kind.NONE, Kind.RESET):
        state.kind = Kind.PREFLIGHT_FAILED
    if isinstance(error, BrokenPipeError):  # its shell is gone, and nothing reads what it says
        _end(work, "killed")
        raise error
    _end(work, f"exit {error.code}: {error.text.splitlines()[0]}")
    await complain(work.call, error)
    return error.code


def _end(work: Work, result: str) -> None:
    work.run.ended, work.run.result = work.host.shared.clock.now(), result
    work.host.keep()


async def complain(call: Call, error: KubeadmError) -> None:
    await call.complain(error.text)
    await call.complain(_TRACE)


def configuration(call: Call, flags: dict[str, str]) -> Wanted:
    """What the file given with --config wants; the defaults without one."""
    version = kubernetes_version(call.host, "kubeadm") or ""
    if "--config" not in flags:
        return Wanted(node_name=call.host.name, port=6443)
    path = flags["--config"]
    try:
        text = call.disk.read(call.path(path), call.user).decode()
    except OSError as error:
        reason = f'unable to read config from "{path}": open {path}: {error.strerror}'
        raise KubeadmError(reason.lower()) from error
    try:
        return read(text, version, call.host.name)
    except ConfigError as error:
        raise KubeadmError(str(error), 3) from error


def administered(call: Call, conf: str = ADMIN_CONF) -> Cluster:
    """The cluster that this host administers, whether its API answers or not."""
    host = call.host
    try:
        call.disk.read(ADMIN_CONF, call.user)
    except OSError as error:
        text = f"failed to load admin kubeconfig: open {conf}: {error.strerror}"
        raise KubeadmError(text.lower()) from error
    cluster = host.shared.clusters.get(host.state.kubeadm.cluster)
    if cluster is None:
        raise KubeadmError(refused(f"{host.address}:6443", host.address, "/api/v1"))
    return cluster


def trouble(call: Call, cluster: Cluster, path: str, forbidden: str) -> str:
    """Why the API does not answer to that path; empty if it does. Without etcd's majority a server
    that runs knows no roles any more, and forbids everything; without its own etcd it is silent."""
    clusters, host = call.host.shared.clusters, call.host
    if clusters.alive(cluster.uid):
        return ""
    own = cluster.members.get(host.state.kubeadm.name)
    if own is not None and clusters.member_well(cluster.uid, own):
        return forbidden
    return refused(f"{cluster.endpoint}:{cluster.port}", host.address, path)


def refused(endpoint: str, address: str, path: str, verb: str = "Get") -> str:
    """How a server is told of that does not listen."""
    port = endpoint.rpartition(":")[2]
    return (
        f'{verb} "https://{endpoint}{path}?timeout=10s": dial tcp {address}:{port}: connect: '
        "connection refused"
    )


def fatal(errors: list[str], *, code: int = 1, before: str = _PREFLIGHT) -> KubeadmError:
    """The end of a run whose checks found these errors, each with its name in front. `before`: what
    is said in front of all of it."""
    shown = "".join(f"\t{error}\n" if error.startswith("[") else error for error in errors)
    return KubeadmError(
        f"{before}[preflight] Some fatal errors occurred:\n"
        f"{shown}[preflight] If you know what you are doing, you can make a check non-fatal with "
        "`--ignore-preflight-errors=...`",
        code,
    )


def unprivileged(call: Call) -> list[str]:
    return [] if call.user == ROOT else ["[ERROR IsPrivilegedUser]: user is not running as root"]


def host_errors(call: Call) -> list[str]:
    """What every host needs before kubeadm makes it anything, after what it is to become was looked
    at."""
    errors = []
    if not _forwards(call):
        errors.append(
            "[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward "
            "contents are not set to 1"
        )
    if kubernetes_version(call.host, "kubelet") is None:
        errors.append("[ERROR FileExisting-kubelet]: kubelet not found in system path")
    if call.host.state.kubeadm.kind in NODES:
        errors.append("[ERROR Port-10250]: Port 10250 is in use")
    return errors


def runtime_errors(call: Call) -> list[str]:
    """A container runtime that does not run is found last, and has no name among the checks."""
    return [] if active_state(call.host, "containerd") == "active" else [_NO_RUNTIME]


def _forwards(call: Call) -> bool:
    path = "/proc/sys/net/ipv4/ip_forward"
    return call.disk.exists(path) and call.disk.read(path).strip() == b"1"


def file_errors(call: Call, paths: tuple[str, ...]) -> list[str]:
    """Files that are in the way."""
    return [
        f"[ERROR FileAvailable-{path.replace('/', '-')}]: {path} already exists"
        for path in paths
        if call.disk.exists(path)
    ]
