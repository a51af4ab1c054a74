"""What real kubeadm, apt and etcd said when they failed, and what we make of it.

Every case is judged as an engineer would judge it who reads all of it: what it is called, whether
another try is worth it, and what the advice begins with."""

from typing import NamedTuple

import pytest

from clients.ssh.failures import (
    FOUNDING,
    FOUNDING_FINAL,
    JOINING,
    JOINING_FINAL,
    JOINING_LAST,
    PACKAGE_FINAL,
    PACKAGING,
    UPGRADE_FINAL,
    UPGRADING,
    Final,
    Passing,
    failure,
)
from domain.errors import DomainError, Failed, Unavailable
from tests.recordings import Recording, recordings

PASSES, FINAL = Unavailable, Failed


class Table(NamedTuple):
    """What a step knows of its failures."""

    passing: tuple[Passing, ...]
    final: tuple[Final, ...] = ()
    last: tuple[Final, ...] = ()


TABLES = {
    "kubeadm init phase upload-certs": Table(JOINING, JOINING_FINAL),
    "kubeadm init": Table(FOUNDING, FOUNDING_FINAL),
    "kubeadm join": Table(JOINING, JOINING_FINAL, JOINING_LAST),
    "kubeadm token": Table(JOINING, JOINING_FINAL),
    "kubeadm upgrade": Table(UPGRADING, UPGRADE_FINAL),
    "dpkg --configure": Table(PACKAGING, PACKAGE_FINAL),
}

API = (PASSES, "API_UNREACHABLE", "if it lasts, see that the cluster's endpoint")
ETCD = (PASSES, "ETCD_UNHEALTHY", "if it lasts, bring back the control planes")
IMAGES = (PASSES, "IMAGES_UNREACHABLE", "if it lasts, open the host's way to the image registry")
TOKEN = (PASSES, "TOKEN_NOT_ACCEPTED", "if it lasts, compare the clocks")
CERTS = (PASSES, "CERTIFICATES_NOT_THERE", "")
SLOW = (PASSES, "HEALTH_CHECK_SLOW", "kubeadm's health check runs as a pod")
REPOSITORY = (PASSES, "PACKAGES_UNREACHABLE", "if it lasts, open the host's way to the package")
PORT = (FINAL, "PORT_IN_USE", "stop what listens there")
LEFT = (FINAL, "LEFT_OVER", "the host was a node before")
TAKEN = (FINAL, "NODE_NAME_TAKEN", "find out which machine is that node")
STRANGER = (FINAL, "AUTHORITY_UNKNOWN", "find out who answers at the cluster's endpoint")
CONFIG = (FINAL, "CONFIGURATION_REFUSED", "report it with this message")
NO_NODE = (FINAL, "NOT_A_CONTROL_PLANE", "the host is no control plane")
NOT_READY = (FINAL, "CONTROL_PLANE_NOT_READY", "mend the control planes it names")
MISSING = (FINAL, "PACKAGE_NOT_FOUND", "let the host find the packages")

JUDGED: dict[str, tuple[type[DomainError], str, str]] = {
    "api-stopped-token-create": API,
    "api-stopped-upgrade-apply": API,
    "api-stopped-upgrade-node": API,
    "api-stopped-upgrade-plan-json": API,
    "api-stopped-upload-certs": API,
    "apt-locked": (PASSES, "PACKAGES_LOCKED", "if it lasts, see on the host what installs"),
    "apt-package-unknown": MISSING,
    "apt-repository-no-such-host": REPOSITORY,
    "apt-repository-refused": REPOSITORY,
    "apt-repository-refused-with-lists": REPOSITORY,
    "apt-repository-silent-with-lists": REPOSITORY,
    "apt-version-missing": MISSING,
    "etcd-no-quorum-token-create": ETCD,
    "etcd-no-quorum-upgrade-plan": ETCD,
    "etcd-stopped-token-create": API,
    "etcd-stopped-upgrade-plan-json": API,
    "init-again-after-failure": LEFT,
    "init-endpoint-unknown": (FINAL, "CONTROL_PLANE_DOWN", "see that the cluster's endpoint leads"),
    "init-images-unreachable": IMAGES,
    "init-ports-in-use": PORT,
    "init-swap-on": (FINAL, "KUBELET_DOWN", "see on the host why the kubelet does not stay up"),
    "join-config-invalid": CONFIG,
    "join-config-missing": CONFIG,
    "join-control-plane-after-cut-no-reset": LEFT,
    "join-control-plane-certificate-key-wrong": CERTS,
    "join-control-plane-certificates-expired": CERTS,
    "join-control-plane-images-unreachable": IMAGES,
    "join-control-plane-name-in-use": TAKEN,
    "join-worker-again": LEFT,
    "join-worker-api-dropped": API,
    "join-worker-api-no-route": API,
    "join-worker-api-no-such-host": API,
    "join-worker-api-refused": API,
    "join-worker-api-servfail": API,
    "join-worker-ca-hash-wrong": STRANGER,
    "join-worker-name-in-use": TAKEN,
    "join-worker-port-in-use": PORT,
    "join-worker-token-expired": TOKEN,
    "join-worker-token-secret-wrong": STRANGER,
    "join-worker-token-unknown": TOKEN,
    "preflight-containerd-stopped": (FINAL, "RUNTIME_DOWN", "see on the host why containerd"),
    "preflight-images-unreachable-connection-refused": IMAGES,
    "preflight-images-unreachable-no-route": IMAGES,
    "preflight-images-unreachable-no-such-host": IMAGES,
    "preflight-images-unreachable-server-misbehaving": IMAGES,
    "preflight-kubelet-newer": IMAGES,
    "preflight-ports-in-use": PORT,
    "preflight-version-too-new": IMAGES,
    "preflight-version-too-old": (FINAL, "VERSION_REFUSED", "install the kubeadm of the version"),
    "token-create-on-nothing": NO_NODE,
    "upgrade-apply-control-plane-not-ready": NOT_READY,
    "upgrade-apply-disk-pressure": SLOW,
    "upgrade-apply-images-unreachable": IMAGES,
    "upgrade-apply-job-too-slow": SLOW,
    "upgrade-apply-refused-1.30.0": (FINAL, "VERSION_REFUSED", "finish the upgrade"),
    "upgrade-apply-refused-1.32.9": (FINAL, "VERSION_REFUSED", "finish the upgrade"),
    "upgrade-apply-refused-1.33.0": (FINAL, "VERSION_REFUSED", "finish the upgrade"),
    "upgrade-apply-refused-1.34.0": (FINAL, "VERSION_REFUSED", "upgrade to the next minor"),
    "upgrade-node-control-plane-images-unreachable": IMAGES,
    "upgrade-node-on-nothing": NO_NODE,
    "upgrade-plan-control-plane-not-ready": NOT_READY,
    "upgrade-plan-disk-pressure": SLOW,
    "upgrade-plan-on-nothing": NO_NODE,
}
"""Every command of ours that failed."""

AGAIN: dict[str, tuple[type[DomainError], str, str]] = {
    "join-control-plane-own-name-still-ready": (PASSES, "NODE_STILL_READY", ""),
    "join-worker-own-name-still-ready": (PASSES, "NODE_STILL_READY", ""),
}
"""Of hosts that were interrupted before."""

INTERRUPTED = {"join-control-plane-power-cut", "join-control-plane-wiped-on-the-way"}
"""They left no exit code, which a job tells by itself."""

ASKED = {
    *("etcd-endpoint-status-json-one-refuses", "etcd-endpoint-status-with-dead-learner"),
    *("etcd-member-remove-last", "etcd-member-remove-unknown", "etcd-snapshot-elsewhere"),
    *("etcd-no-quorum-endpoint-health", "etcd-no-quorum-endpoint-status"),
    *("etcd-no-quorum-member-list", "etcd-no-quorum-member-remove", "etcd-no-quorum-snapshot"),
    *(
        "crictl-exec-unknown-container",
        "ctr-tasks-exec-failing",
        "ctr-tasks-exec-unknown-container",
    ),
    *("crictl-not-installed", "kubeadm-not-installed", "systemctl-containerd-not-installed"),
    *("cloud-init-status-package-missing", "cloud-init-status-package-missing-long"),
}
"""Questions whose answer is judged where it is asked, whatever their exit code."""

ASIDES = (
    *("To see the stack trace", "[WARNING", "If you know what you are doing"),
    *("This error is likely caused by", "The kubelet is not running"),
)


def command(recording: Recording) -> str:
    """Which of our commands it was."""
    words = recording.argv.removeprefix("sh -c '")
    return next((each for each in TABLES if words.startswith(each)), "")


def judged(recording: Recording, *, again: bool = False) -> DomainError:
    table = TABLES[command(recording)]
    said = recording.output[-16_000:]
    what = " ".join(recording.argv.split()[:2])
    return failure(
        what,
        abs(recording.exit),
        said,
        table.passing,
        final=table.final,
        last=table.last,
        again=again,
    )


def test_every_case_that_failed_is_judged() -> None:
    failed = {name for name, each in recordings().items() if each.exit}
    assert len(recordings()) == 181
    assert failed == {*JUDGED, *AGAIN, *INTERRUPTED, *ASKED} - {
        name for name in ASKED if not recordings()[name].exit
    }


@pytest.mark.parametrize("name", [*JUDGED, *AGAIN])
def test_what_real_programs_said_is_judged_as_an_engineer_would(name: str) -> None:
    kind, reason, advice = {**JUDGED, **AGAIN}[name]
    error = judged(recordings()[name], again=name in AGAIN)
    assert (type(error), error.reason) == (kind, reason)
    assert error.do.startswith(advice)
    if kind is FINAL:
        assert error.do
    assert not [aside for aside in ASIDES if aside in error.message]
    assert "it said nothing" not in error.message
