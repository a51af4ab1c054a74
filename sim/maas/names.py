"""The region's DNS records: names, and the addresses they lead to."""

import ipaddress
from typing import Any

from pydantic import Field

from sim.ledger import Ledger, Record
from sim.maas import view
from sim.maas.call import Call, Refusal
from sim.maas.machine import USER


class Name(Record):
    """One DNS resource."""

    number: int
    label: str
    ttl: int | None = None
    addresses: list[str] = Field(default_factory=list)


class Names:
    """The records that somebody made. Those of machines themselves are not among them."""

    def __init__(self, ledger: Ledger, *, network: str, domain: str) -> None:
        self._ledger, self._network, self._domain = ledger, network, domain
        recalled = ledger.recall("maas-name", Name).values()
        self.all = {name.number: name for name in recalled}
        self._highest = max(self.all, default=0)

    def fqdn(self, name: Name) -> str:
        return f"{name.label}.{self._domain}"

    def resolve(self, fqdn: str) -> list[str]:
        """The addresses a name leads to. None for a name that nobody made."""
        return next((name.addresses for name in self.all.values() if self.fqdn(name) == fqdn), [])

    def listed(self, call: Call) -> list[dict[str, Any]]:
        """All of them by label, or those of one `fqdn`, `name` or `domain`."""
        label, domain = call.one("name"), call.one("domain")
        if call.one("fqdn") and not label and not domain:
            label, _, domain = call.one("fqdn").partition(".")
        if domain not in ("", self._domain):
            raise Refusal(404, "No Domain matches the given query.")
        found = sorted(self.all.values(), key=lambda name: name.label)
        return [self._view(name) for name in found if label in ("", name.label)]

    def read(self, call: Call) -> dict[str, Any]:
        return self._view(self._found(call))

    def create(self, call: Call) -> dict[str, Any]:
        label = self._label(call)
        if any(name.label == label for name in self.all.values()):
            raise Refusal(400, {"__all__": ["Labels must be unique within their zone."]})
        name = Name(number=self._highest + 1, label=label)
        self._fill(name, call)
        self._highest = name.number
        return self._view(self._kept(name))

    def update(self, call: Call) -> dict[str, Any]:
        """What is not said stays; a list of addresses replaces the one there was."""
        name = self._found(call).model_copy()
        self._fill(name, call)
        return self._view(self._kept(name))

    def delete(self, call: Call) -> None:
        name = self._found(call)
        del self.all[name.number]
        self._ledger.drop("maas-name", str(name.number))

    def _kept(self, name: Name) -> Name:
        self._ledger.keep("maas-name", str(name.number), name)
        self.all[name.number] = name
        return name

    def _found(self, call: Call) -> Name:
        number = call.at["id"]
        name = self.all.get(int(number)) if number.isdigit() else None
        if name is None:
            raise Refusal(404, "No DNSResource matches the given query.")
        return name

    def _label(self, call: Call) -> str:
        """The name without its domain, which must be ours; an address has a single label."""
        label, domain = call.one("name"), call.one("domain")
        if not label and not domain:
            label = call.one("fqdn").removesuffix(f".{self._domain}")
            domain = self._domain if label != call.one("fqdn") else ""
        if not label:
            raise Refusal(400, {"name": ["This field is required."]})
        if domain != self._domain:
            raise Refusal(404, "No Domain matches the given query.")
        if "." in label:
            raise Refusal(400, {"__all__": [f"Invalid dnsresource name: {label}."]})
        return label

    def _fill(self, name: Name, call: Call) -> None:
        if ttl := call.one("address_ttl"):
            if not ttl.isdigit():
                raise Refusal(400, {"address_ttl": ["Enter a whole number."]})
            name.ttl = int(ttl)
        if "ip_addresses" not in call.parameters:
            return
        addresses = " ".join(call.all("ip_addresses")).split()
        for address in addresses:
            try:
                ipaddress.ip_address(address)
            except ValueError:
                wrong = f"Enter a valid IPv4 or IPv6 address: {address!r}."
                raise Refusal(400, {"ip_addresses": [wrong]}) from None
        name.addresses = addresses

    def _view(self, name: Name) -> dict[str, Any]:
        return {
            "id": name.number,
            "fqdn": self.fqdn(name),
            "address_ttl": name.ttl,
            "ip_addresses": [self._address(address) for address in name.addresses],
            "resource_records": [],
            "resource_uri": f"{view.API}dnsresources/{name.number}/",
        }

    def _address(self, address: str) -> dict[str, Any]:
        return {
            "alloc_type": 4,
            "alloc_type_name": "User reserved",
            "ip": address,
            "subnet": view.subnet(self._network),
            "interface_set": [],
            "owner": {"username": USER, "email": "", "is_superuser": False},
            "resource_uri": f"{view.API}ipaddresses/",
        }
