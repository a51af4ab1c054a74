"""What the parts of the site know of one another: MAAS drives power and disks, hosts answer."""

from typing import Protocol

from domain.frozen import Frozen


class Installed(Frozen):
    """A machine with a fresh system on it, about to boot for the first time."""

    system_id: str
    hostname: str
    address: str
    """A loopback address of its own, such as 127.41.7.3."""
    series: str
    user_data: str
    """Decoded cloud-init user data, as it was sent with the deployment."""


class Hosts(Protocol):
    """The machines' other half: what runs on them once they are installed."""

    async def boot(self, machine: Installed) -> None:
        """First boot of a fresh system: wipe what was there, new SSH host key, then sshd and
        cloud-init after their delays. Returns at once."""

    async def power_off(self, system_id: str) -> None:
        """Stop answering. Disks keep what they hold."""

    async def power_on(self, system_id: str) -> None:
        """Boot again what is installed."""

    async def wipe(self, system_id: str) -> None:
        """Stop answering for good and forget everything, as a release does."""
