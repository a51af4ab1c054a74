"""Kubernetes packages on hosts: put there by apt, and held so that nothing else moves them."""

from clients.ssh.connections import line
from clients.ssh.failures import PACKAGE_FINAL, PACKAGING
from clients.ssh.jobs import Repeats, Step
from domain.cloud_init import APT_LOCK_SECONDS

_APT = (
    *("apt-get", "--quiet", "--yes"),
    *("-o", f"DPkg::Lock::Timeout={APT_LOCK_SECONDS}"),
    *("-o", "Dpkg::Options::=--force-confold"),
)


def installing(
    name: str, version: str, *packages: str, then: tuple[tuple[str, ...], ...] = ()
) -> Step:
    """The step of this name, which installs these packages in this version and does what comes
    `then`. They are held again however it ends; what a reboot has interrupted is put in order.

    `apt-mark` does not wait for dpkg's lock. So apt is asked first to install nothing, which waits;
    what takes the lock between the two is something that passes."""
    wanted = (f"{package}={version}-*" for package in packages)
    orders = (
        line(*_APT, "install"),
        line("apt-mark", "unhold", *packages),
        line(*_APT, "update"),
        f"DEBIAN_FRONTEND=noninteractive {line(*_APT, 'install', *wanted)}",
        *(line(*command) for command in then),
    )
    script = "; ".join(
        (
            line("dpkg", "--configure", "-a"),
            " && ".join(orders),
            "status=$?",
            line("apt-mark", "hold", *packages),
            "exit $status",
        )
    )
    return Step(
        name,
        ("sh", "-c", script),
        about=(name, version, *packages),
        passing=PACKAGING,
        repeats=Repeats.UNTIL_DONE,
        final=PACKAGE_FINAL,
        title=f"installing {' and '.join(packages)} {version}",
    )
