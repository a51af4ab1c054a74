"""What kubeadm's last words mean: worth another try, or not.

Only its exit code, the phase it names and words that have stood for years are read; whole
sentences change from version to version."""

import re
from typing import NamedTuple

from domain.errors import DomainError, Failed, Unavailable

PREFLIGHT = 2
"""The exit code of checks that failed, until kubeadm gave it up for 1."""

DISK_FULL = "DISK_FULL"
MAKE_ROOM = "make room on the host's disk, or take the machine out of the pool"

_NO_SPACE = "no space left on device"
_TAIL = 2000
_LONGEST = 600
_CHECK = re.compile(r"\[ERROR [^\]]+\]: .*")
_LISTED = re.compile(r"^\t- (.*)", re.MULTILINE)
"""What kubeadm holds against a version, line by line."""
_APT = re.compile(r"^(E: .*)", re.MULTILINE)
_PHASE = re.compile(r"error execution phase (\S+): (.*)")
_SECRET = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\b(?<!sha256:)[0-9a-f]{64}\b")


class Passing(NamedTuple):
    """Something that goes wrong for a while."""

    words: re.Pattern[str]
    reason: str
    only_again: bool = False
    """Whether it passes only for a host that was interrupted before."""


class Final(NamedTuple):
    """Something that goes wrong for good, and what to do about it."""

    words: re.Pattern[str]
    reason: str
    do: str


_UNREACHABLE = Passing(
    re.compile(
        r"connection refused|i/o timeout|context deadline exceeded|no route to host|"
        r"TLS handshake timeout|unexpected EOF|no such host|connection reset"
    ),
    "API_UNREACHABLE",
)

JOINING = (
    Passing(
        re.compile(r"could not find a JWS signature|token id .* is invalid|not yet valid"),
        "TOKEN_NOT_ACCEPTED",
    ),
    Passing(
        re.compile(r"kubeadm-certs.*was not found|message authentication failed"),
        "CERTIFICATES_NOT_THERE",
    ),
    Passing(
        re.compile(r"etcd cluster is not healthy|etcdserver: |can only promote a learner"),
        "ETCD_UNHEALTHY",
    ),
    _UNREACHABLE,
    Passing(
        re.compile(r'a Node with name .* and status "Ready" already exists'),
        "NODE_STILL_READY",
        only_again=True,
    ),
)
"""What passes while a host joins a cluster that runs."""

FOUNDING = (
    Passing(
        re.compile(r"ERROR ImagePull\]: .*(timeout|connection refused|no such host|reset)"),
        "IMAGES_UNREACHABLE",
    ),
)
"""What passes while a host founds a cluster: nothing but the network."""


PACKAGING = (
    Passing(
        re.compile(r"Could not get lock|Unable to acquire the dpkg|lock was locked|is another pro"),
        "PACKAGES_LOCKED",
    ),
    Passing(
        re.compile(
            r"Temporary failure resolving|Could not resolve|Could not connect|Connection timed out|"
            r"Connection failed|Hash Sum mismatch|Failed to fetch"
        ),
        "PACKAGES_UNREACHABLE",
    ),
)
"""What passes while packages are installed."""

PACKAGE_FINAL = (
    Final(
        re.compile(r"Version '.*' for '.*' was not found|Unable to locate package"),
        "PACKAGE_NOT_FOUND",
        "let the host find the packages of this version (in MAAS, and in its own "
        "/etc/apt/sources.list.d), then ask for the same again",
    ),
    Final(
        re.compile(r"No space left on device|not enough free space"),
        DISK_FULL,
        "make room on the host, then ask for the same again",
    ),
)

UPGRADING = (_UNREACHABLE,)
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
)


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
    again: bool = False,
) -> DomainError:
    """The error that a run's exit code and the end of its output stand for. What is known to be
    final is, even if words of something that passes stand beside it."""
    output = _SECRET.sub("<redacted>", output)
    checks = _CHECK.findall(output) or _LISTED.findall(output) or _APT.findall(output)
    phase = _PHASE.search(output)
    if checks:
        words = "; ".join(checks)
    elif phase:
        words = f"error execution phase {phase[1]}: {phase[2]}"
    else:
        words = next(reversed(output.strip().splitlines()), "it said nothing")
    message = f"{what} ended with {status}: {words[:_LONGEST]}"
    facts = {"output": output[-_TAIL:]} | ({"phase": phase[1]} if phase else {})
    for known in final:
        if known.words.search(output):
            return Failed(message, reason=known.reason, do=known.do, facts=facts)
    if is_full(output):
        return Failed(message, reason=DISK_FULL, do=MAKE_ROOM, facts=facts)
    for each in passing:
        if each.words.search(output) and (again or not each.only_again):
            return Unavailable(message, reason=each.reason, facts=facts)
    refused = bool(checks) or status == PREFLIGHT
    return Failed(message, reason="PREFLIGHT" if refused else "KUBEADM", facts=facts)
