"""Stable names for clusters: DNS records of the region."""

from clients.maas import seen
from clients.maas.seen import SeenName
from clients.maas.transport import Maas
from domain.errors import Invalid, NotFound
from domain.ports import Endpoint

TTL_SECONDS = 10
"""A record that moves with its control plane must be forgotten fast."""


class MaasEndpoints:
    """`domain.ports.Endpoints` by DNS records. They fail over as fast as resolvers forget."""

    def __init__(self, maas: Maas) -> None:
        self._maas = maas

    async def ensure(self, endpoint: Endpoint) -> None:
        """Make the record, or make it say this. Two that make it at once agree in the end."""
        wanted = {
            "address_ttl": str(TTL_SECONDS),
            "ip_addresses": " ".join(endpoint.addresses),
        }
        known = await self._find(endpoint.name)
        if known is None:
            try:
                await self._maas.post("dnsresources/", fqdn=endpoint.name, **wanted)
                return
            except Invalid:  # perhaps because somebody else has just made it
                known = await self._find(endpoint.name)
                if known is None:
                    raise
        if known.addresses != set(endpoint.addresses) or known.address_ttl != TTL_SECONDS:
            await self._maas.put(f"dnsresources/{known.id}/", **wanted)

    async def remove(self, endpoint: Endpoint) -> None:
        try:
            known = await self._find(endpoint.name)
            if known is not None:
                await self._maas.delete(f"dnsresources/{known.id}/")
        except NotFound:  # the record went in between, or its whole domain did
            return

    async def _find(self, name: str) -> SeenName | None:
        body = await self._maas.get("dnsresources/", fqdn=name)
        names = seen.read(seen.NAMES, body, "GET dnsresources/")
        return next((one for one in names if one.fqdn == name), None)
