"""What kubeadm's last words mean: worth another try, or not.

Only its exit code, the phase it names and words that have stood for years are read; whole
sentences change from version to version."""

import re
from typing import NamedTuple

from domain.errors import DomainError, Failed, Unavailable

PREFLIGHT = 2
"""The exit code of checks that failed, until kubeadm gave it up for 1."""

_TAIL = 2000
_LONGEST = 600
_CHECK = re.compile(r"\[ERROR [^\]]+\]: .*")
_PHASE = re.compile(r"error execution phase (\S+): (.*)")
_SECRET = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\b(?<!sha256:)[0-9a-f]{64}\b")


class Passing(NamedTuple):
    """Something that goes wrong for a while."""

    words: re.Pattern[str]
    reason: str
    only_again: bool = False
    """Whether it passes only for a host that was interrupted before."""


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
    Passing(
        re.compile(
            r"connection refused|i/o timeout|context deadline exceeded|no route to host|"
            r"TLS handshake timeout|unexpected EOF|no such host|connection reset"
        ),
        "API_UNREACHABLE",
    ),
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


def failure(
    what: str, status: int, output: str, passing: tuple[Passing, ...], *, again: bool = False
) -> DomainError:
    """The error that a run's exit code and the end of its output stand for."""
    output = _SECRET.sub("<redacted>", output)
    checks = _CHECK.findall(output)
    phase = _PHASE.search(output)
    if checks:
        words = "; ".join(checks)
    elif phase:
        words = f"error execution phase {phase[1]}: {phase[2]}"
    else:
        words = next(reversed(output.strip().splitlines()), "it said nothing")
    message = f"{what} ended with {status}: {words[:_LONGEST]}"
    facts = {"output": output[-_TAIL:]} | ({"phase": phase[1]} if phase else {})
    for each in passing:
        if each.words.search(output) and (again or not each.only_again):
            return Unavailable(message, reason=each.reason, facts=facts)
    refused = bool(checks) or status == PREFLIGHT
    return Failed(message, reason="PREFLIGHT" if refused else "KUBEADM", facts=facts)
