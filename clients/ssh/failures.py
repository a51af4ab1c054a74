"""What kubeadm's and apt's last words mean: worth another try, or not.

Only exit codes, the phase that is named and words that have stood for years are read; whole
sentences change from version to version. The tables are held against what the real programs said
when they failed: tests/data/metal."""

import re
from typing import NamedTuple

from domain.errors import DomainError, Failed, Unavailable

PREFLIGHT = 2
"""The exit code of `kubeadm upgrade plan` whose checks failed, and long ago of every check."""

DISK_FULL = "DISK_FULL"
MAKE_ROOM = "make room on the host's disk, or take the machine out of the pool"

_NO_SPACE = "no space left on device"
_TAIL = 2000
_LONGEST = 600
_CHECK = re.compile(r"\[ERROR [^\]]+\]: .*")
_LISTED = re.compile(
    r"^\t- (Specified version .*|There are kubelets .*|.*kubeadm.* version.*)", re.M
)
"""What kubeadm holds against a version, line by line."""
_APT = re.compile(r"^(E: .*)", re.MULTILINE)
_PHASE = re.compile(r"error execution phase (\S+): (.*)")
_ADVICE = re.compile(
    r"^This error is likely caused by:\n.*?(?=^\S*error execution|\Z)", re.M | re.S
)
"""What kubeadm says after every control plane that does not come up, whatever the cause."""
_ASIDE = re.compile(
    r"^(?:\s*\[WARNING [^\]]+\]: |W\d{4} |To see the stack trace of this error).*\n?", re.MULTILINE
)
"""Lines that say nothing of why a run failed, though they may hold words of what passes."""
_SECRET = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\b(?<!sha256:)[0-9a-f]{64}\b")


class Passing(NamedTuple):
    """Something that goes wrong for a while, and what to do if it lasts."""

    words: re.Pattern[str]
    reason: str
    only_again: bool = False
    """Whether it passes only for a host that was interrupted before."""
    do: str = ""


class Final(NamedTuple):
    """Something that goes wrong for good, and what to do about it."""

    words: re.Pattern[str]
    reason: str
    do: str
    unless: re.Pattern[str] | None = None
    """Words beside it that make it something that passes."""


_UNREACHABLE = Passing(
    re.compile(
        r"connection refused|i/o timeout|context deadline|no route to host|network is unreachable|"
        r"TLS handshake timeout|unexpected EOF|no such host|connection reset|server misbehaving|"
        r"request canceled|Client\.Timeout exceeded"
    ),
    "API_UNREACHABLE",
    do="if it lasts, see that the cluster's endpoint leads to a control plane that runs, from the "
    "host that it names",
)

_IMAGES = Passing(
    re.compile(
        r"ERROR ImagePull\]: .*(timeout|connection refused|no such host|reset|no route to host|"
        r"network is unreachable|server misbehaving|request canceled|context deadline|EOF)"
    ),
    "IMAGES_UNREACHABLE",
    do="if it lasts, open the host's way to the image registry, or name one that it reaches "
    "(WINDLASS_MAAS__SUPPLY__IMAGE_REPOSITORY)",
)

_NO_MAJORITY = Passing(
    re.compile(
        r'etcd cluster is not healthy|etcdserver: |forbidden: User "kubernetes-admin" cannot'
    ),
    "ETCD_UNHEALTHY",
    do="if it lasts, bring back the control planes that are away: etcd answers to a majority only",
)
"""An API server without etcd's majority reads no roles, and refuses even its administrator."""

_LEFT = Final(
    re.compile(r"ERROR FileAvailable|ERROR DirAvailable"),
    "LEFT_OVER",
    "the host was a node before: release the machine so that it is installed anew, or run "
    "kubeadm reset there",
)
_PORT = Final(
    re.compile(r"ERROR Port-\d+\]"),
    "PORT_IN_USE",
    "stop what listens there on the host, or take the machine out of the pool",
)
_RUNTIME = Final(
    re.compile(r"failed to create new CRI runtime service|ERROR CRI\]"),
    "RUNTIME_DOWN",
    "see on the host why containerd does not run (systemctl status containerd)",
)
_KUBELET = Final(
    re.compile(r"kubelet is not healthy after"),
    "KUBELET_DOWN",
    "see on the host why the kubelet does not stay up (journalctl -u kubelet): swap that is on, "
    "or control groups that it does not take",
)
_CONTROL_PLANE = Final(
    re.compile(r"API server is not healthy after|phase wait-control-plane: "),
    "CONTROL_PLANE_DOWN",
    "see that the cluster's endpoint leads to this host, and which of its containers end "
    "(crictl ps -a, or ctr -n k8s.io tasks list)",
)
_VERSION = Final(
    re.compile(r"this version of kubeadm only supports deploying"),
    "VERSION_REFUSED",
    "install the kubeadm of the version that is asked for on the host",
)
_STRANGER = Final(
    re.compile(r"cluster CA found in cluster-info|failed to verify JWS signature"),
    "AUTHORITY_UNKNOWN",
    "find out who answers at the cluster's endpoint: it is not the cluster whose authority we keep",
)
_TAKEN = Final(
    re.compile(r'a Node with name .* and status "Ready" already exists'),
    "NODE_NAME_TAKEN",
    "find out which machine is that node; delete the Node if it is nobody, then ask again",
)
_CONFIGURATION = Final(
    re.compile(
        r"Invalid value: |unable to read config from|cannot unmarshal|no kind .* registered"
    ),
    "CONFIGURATION_REFUSED",
    "report it with this message: this kubeadm does not read the configuration that is written "
    "for its version",
)
_NO_NODE = Final(
    re.compile(r"failed to load admin kubeconfig"),
    "NOT_A_CONTROL_PLANE",
    "the host is no control plane, or no node, any more: repair the cluster, then ask again",
)

FOUNDING_FINAL = (_LEFT, _PORT, _RUNTIME, _KUBELET, _CONTROL_PLANE, _VERSION, _CONFIGURATION)
"""What does not pass while a host founds a cluster."""

JOINING_FINAL = (_LEFT, _PORT, _RUNTIME, _KUBELET, _VERSION, _STRANGER, _CONFIGURATION, _NO_NODE)
"""What does not pass while a host joins one."""

JOINING = (
    _IMAGES,
    Passing(
        re.compile(r"could not find a JWS signature|token id .* is invalid|not yet valid"),
        "TOKEN_NOT_ACCEPTED",
        do="if it lasts, compare the clocks of the hosts",
    ),
    Passing(
        re.compile(r"kubeadm-certs.*was not found|message authentication failed"),
        "CERTIFICATES_NOT_THERE",
    ),
    _NO_MAJORITY._replace(
        words=re.compile(_NO_MAJORITY.words.pattern + r"|can only promote a learner")
    ),
    _UNREACHABLE,
    Passing(_TAKEN.words, "NODE_STILL_READY", only_again=True),
)
"""What passes while a host joins a cluster that runs."""

JOINING_LAST = (_TAKEN,)
"""What is final if it does not pass: only for a host that was interrupted is its name its own."""

FOUNDING = (_IMAGES,)
"""What passes while a host founds a cluster: nothing but the network."""

_AWAY = re.compile(
    r"Temporary failure resolving|Could not resolve|Could not connect|Connection timed out|"
    r"connection timed out|Connection failed|Hash Sum mismatch|Failed to fetch|Unable to connect"
)

PACKAGING = (
    Passing(
        re.compile(r"Could not get lock|Unable to acquire the dpkg|lock was locked|is another pro"),
        "PACKAGES_LOCKED",
        do="if it lasts, see on the host what installs packages (it holds dpkg's lock)",
    ),
    Passing(
        _AWAY,
        "PACKAGES_UNREACHABLE",
        do="if it lasts, open the host's way to the package repositories that it knows",
    ),
)
"""What passes while packages are installed."""

PACKAGE_FINAL = (
    Final(
        re.compile(r"Version '.*' for '.*' was not found|Unable to locate package"),
        "PACKAGE_NOT_FOUND",
        "let the host find the packages of this version (in MAAS, and in its own "
        "/etc/apt/sources.list.d), then ask for the same again",
        unless=_AWAY,
    ),
    Final(
        re.compile(r"No space left on device|not enough free space"),
        DISK_FULL,
        "make room on the host, then ask for the same again",
    ),
)
"""apt only warns of a repository that is away, and then misses what it would have found there."""

UPGRADING = (
    _IMAGES,
    Passing(
        re.compile(r"ERROR CreateJob\]"),
        "HEALTH_CHECK_SLOW",
        do="kubeadm's health check runs as a pod, which did not end in 15 s. If it lasts, see why "
        "pods do not start on the control planes: pressure on the disk, or no image",
    ),
    _NO_MAJORITY._replace(words=re.compile(r'forbidden: User "kubernetes-admin" cannot')),
    _UNREACHABLE,
)
"""What passes while a node is upgraded. What kubeadm has rolled back does not."""

VERSION_REFUSED = "VERSION_REFUSED"

UPGRADE_FINAL = (
    Final(
        re.compile(r"is too high; kubeadm can upgrade only"),
        VERSION_REFUSED,
        "upgrade to the next minor version first",
    ),
    Final(
        re.compile(
            r"kubeadm minor release|higher than the kubeadm version|can only be used to upgrade to|"
            r"this version of kubeadm only supports"
        ),
        VERSION_REFUSED,
        "finish the upgrade that was begun before; no other version can be installed meanwhile",
    ),
    Final(
        re.compile(r"kubelets in this cluster that are too old"),
        VERSION_REFUSED,
        "upgrade the nodes with these kubelets to the cluster's present version first",
    ),
    Final(
        re.compile(r"NotReady control-planes"),
        "CONTROL_PLANE_NOT_READY",
        "mend the control planes it names, then ask for the same upgrade again",
    ),
    Final(
        re.compile(r"etcd cluster is not healthy"),
        "ETCD_UNHEALTHY",
        "mend the etcd member it names, then ask for the same upgrade again",
    ),
    Final(
        re.compile(r"tried to recover everything into the earlier state"),
        "ROLLED_BACK",
        "kubeadm has put the old manifests back and the node works as before: find out from its "
        "output what did not come up, then ask for the same upgrade again",
    ),
    _NO_NODE._replace(words=re.compile(r"couldn't create a Kubernetes client from file")),
)


READ_OUTPUT = "read what it said in the error's details, mend that on the host, then ask again"


def is_full(words: str) -> bool:
    """Whether somebody complains of a full disk."""
    return _NO_SPACE in words.lower()


def failure(
    what: str,
    status: int,
    output: str,
    passing: tuple[Passing, ...],
    *,
    final: tuple[Final, ...] = (),
    last: tuple[Final, ...] = (),
    again: bool = False,
) -> DomainError:
    """The error that a run's exit code and the end of its output stand for. What is known to be
    final is, even if words of something that passes stand beside it; what is in `last` is final
    if it does not pass."""
    output = _SECRET.sub("<redacted>", output)
    judged = _judged(output)
    checks = _CHECK.findall(judged) or _LISTED.findall(judged) or _APT.findall(judged)
    phase = _PHASE.search(judged)
    words = _words(judged, checks, phase)
    message = f"{what} ended with {status}: {words[:_LONGEST]}"
    facts = {"output": output[-_TAIL:]} | ({"phase": phase[1]} if phase else {})
    for known in final:
        if known.words.search(judged) and not (known.unless and known.unless.search(judged)):
            return Failed(message, reason=known.reason, do=known.do, facts=facts)
    if is_full(judged):
        return Failed(message, reason=DISK_FULL, do=MAKE_ROOM, facts=facts)
    for each in passing:
        if each.words.search(judged) and (again or not each.only_again):
            return Unavailable(message, reason=each.reason, do=each.do, facts=facts)
    for known in last:
        if known.words.search(judged):
            return Failed(message, reason=known.reason, do=known.do, facts=facts)
    refused = bool(checks) or status == PREFLIGHT
    return Failed(
        message, reason="PREFLIGHT" if refused else "KUBEADM", do=READ_OUTPUT, facts=facts
    )


def _judged(output: str) -> str:
    """The lines that may say why a run failed. All of them, if no others are left."""
    return _ASIDE.sub("", _ADVICE.sub("", output)).strip() or output.strip()


def _words(judged: str, checks: list[str], phase: re.Match[str] | None) -> str:
    """What a message quotes."""
    if checks:
        return "; ".join(dict.fromkeys(checks))
    if phase:
        return f"error execution phase {phase[1]}: {phase[2]}"
    return next(reversed(judged.splitlines()), "it said nothing")
