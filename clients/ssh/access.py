"""The kubeconfig that we keep of a cluster, and renew before it opens nothing any more.

kubeadm's certificates live for a year, and an upgrade renews those on the hosts alone. So the kept
one is looked at, and replaced by a host's own: as that is if it lives for long, or else once
kubeadm has renewed it."""

import base64
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509

from clients.ssh.connections import Connections, named, root
from domain.errors import DomainError, Failed, Unavailable
from domain.machine import Machine
from domain.ports import Vault, kubeconfig

ADMIN_CONF = "/etc/kubernetes/admin.conf"

LONG = timedelta(days=90)
"""What a host has is taken as it is if it opens the API for so long."""

_RENEW = ("kubeadm", "certs", "renew", "admin.conf")


class Access:
    def __init__(self, connections: Connections, vault: Vault) -> None:
        self._connections = connections
        self._vault = vault

    async def keep(self, machine: Machine) -> None:
        """Keep the host's own kubeconfig."""
        await self._keep(machine, await self._read(machine))

    async def until(self, cluster_uid: str) -> datetime | None:
        """Until when the one that we keep opens the API. None: it does not say, or is not there."""
        try:
            kept = await self._vault.open(kubeconfig(cluster_uid))
        except DomainError:
            return None
        return expiry(kept)

    async def renew(self, control_planes: Sequence[Machine]) -> None:
        """Replace the one that we keep by one that lives longer, of the first host that answers."""
        *others, last = control_planes
        for machine in others:
            with suppress(Unavailable):
                return await self._renew(machine)
        return await self._renew(last)

    async def _renew(self, machine: Machine) -> None:
        found = await self._read(machine)
        until = expiry(found)
        if until is None or until - datetime.now(UTC) < LONG:
            answer = await self._connections.run(machine, root(*_RENEW))
            answer.succeeded(machine)
            found, before = await self._read(machine), until
            until = expiry(found)
            if until is None or (before is not None and until <= before):
                raise Failed(f"kubeadm on {named(machine)} did not renew {ADMIN_CONF}")
        await self._keep(machine, found)

    async def _read(self, machine: Machine) -> bytes:
        answer = await self._connections.run(machine, root("cat", ADMIN_CONF))
        return answer.succeeded(machine).encode()

    async def _keep(self, machine: Machine, found: bytes) -> None:
        await self._vault.keep(kubeconfig(machine.slot.cluster_uid), found)


def expiry(config: bytes) -> datetime | None:
    """When the client certificate in a kubeconfig expires; None if none can be read in it."""
    try:
        data = yaml.safe_load(config)["users"][0]["user"]["client-certificate-data"]
        return x509.load_pem_x509_certificate(base64.b64decode(data)).not_valid_after_utc
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        return None
