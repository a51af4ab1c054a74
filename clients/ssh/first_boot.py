"""How a machine's first boot went: what cloud-init says, and what its failures mean."""

import re

from pydantic import BaseModel, Field, ValidationError

from clients.ssh.connections import Answer, Connections, named, root
from clients.ssh.failures import PACKAGE_FINAL, PACKAGING, failure
from domain.errors import DomainError, Failed, Unavailable
from domain.machine import Machine

NEEDED = frozenset(
    {
        *("bootcmd", "ca_certs", "ca-certs", "runcmd", "scripts_user", "scripts-user"),
        *("package_update_upgrade_install", "package-update-upgrade-install"),
        *("apt_configure", "apt-configure", "ssh", "users_groups", "users-groups"),
        *("write_files", "write-files", "write-files-deferred", "write_files_deferred"),
    }
)
"""The modules of cloud-init that make a machine what a node has to be. What else went wrong, such
as a locale, keeps no node from working; whether what is needed is there is checked afterwards."""

_MODULE = re.compile(r"^\('([^']+)', ")
_PACKAGES = ("package-update-upgrade-install", "package_update_upgrade_install")
_LOG = "/var/log/cloud-init-output.log"
_LOG_BYTES = 16_000
_LONGEST = 600

FIRST_BOOT = "FIRST_BOOT"
_READ = (
    f"read {_LOG} on the machine if it can still be reached; mend the image, or what MAAS gives "
    "it, then ask again"
)


class Boot(BaseModel):
    """What `cloud-init status` tells, as far as we ask."""

    status: str
    errors: list[str] = Field(default_factory=list)

    @property
    def troubles(self) -> list[str]:
        """What went wrong that a node needs. An error that names no module counts."""
        return [each for each in self.errors if _module(each) in ("", *NEEDED)]


async def is_over(connections: Connections, machine: Machine, answer: Answer) -> bool:
    """Whether the first boot is over. One that left out what a node needs is Failed."""
    boot = read(machine, answer)
    if boot.status != "error":
        return boot.status in ("done", "disabled")
    if boot.errors and not boot.troubles:
        return True
    said = ""
    if any(_module(each) in _PACKAGES for each in boot.troubles):
        log = await connections.run(machine, root("tail", "-c", str(_LOG_BYTES), _LOG))
        said = log.out
    raise trouble(machine, boot, said)


def read(machine: Machine, answer: Answer) -> Boot:
    try:
        return Boot.model_validate_json(answer.out)
    except ValidationError as error:
        raise Unavailable(
            f"{named(machine)} did not say how its first boot stands: {answer.err.strip()[-500:]}"
        ) from error


def trouble(machine: Machine, boot: Boot, said: str) -> DomainError:
    """What a first boot that failed means. It does not happen again by itself, so that what would
    pass elsewhere is final here, with the reason it has there."""
    what = f"the first boot of {named(machine)}"
    errors = "; ".join(boot.troubles) or "no reason given"
    if said:
        judged = failure(what, 1, said, PACKAGING, final=PACKAGE_FINAL)
        if judged.reason not in ("KUBEADM", "PREFLIGHT"):
            return Failed(
                f"{what} went wrong: {judged.message}",
                reason=judged.reason,
                do=judged.do,
                facts=judged.facts,
            )
    return Failed(f"{what} went wrong: {errors[:_LONGEST]}", reason=FIRST_BOOT, do=_READ)


def _module(error: str) -> str:
    """Which of cloud-init's modules failed; empty if the error does not say."""
    found = _MODULE.match(error)
    return found[1] if found else ""
