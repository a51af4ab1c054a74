"""Machines as clients see them: complete objects, made from one recorded machine."""

import json
from pathlib import Path
from typing import Any

from sim.maas.machine import Machine, Status

_RECORDED = (Path(__file__).parents[1] / "data" / "machine.json").read_text()
_RECORDED_ID, _RECORDED_MAC = "h6ptbr", "b4:c5:a9:f3:7c:1e"

API = "/MAAS/api/2.0/"


def zone(name: str, names: list[str]) -> dict[str, Any]:
    """A zone. Its id is its place among the region's."""
    return {
        "name": name,
        "description": "",
        "id": names.index(name) + 1,
        "resource_uri": f"{API}zones/{name}/",
    }


def pool(name: str, names: list[str]) -> dict[str, Any]:
    """A resource pool, of which MAAS counts the first as 0."""
    number = names.index(name)
    return {
        "name": name,
        "description": "",
        "id": number,
        "resource_uri": f"{API}resourcepool/{number}/",
    }


def subnet(network: str) -> dict[str, Any]:
    """The one subnet there is, `network` being its first two bytes."""
    return {
        "id": 1,
        "name": f"{network}.0.0/16",
        "cidr": f"{network}.0.0/16",
        "description": "",
        "gateway_ip": None,
        "dns_servers": [],
        "allow_dns": True,
        "allow_proxy": True,
        "active_discovery": False,
        "managed": True,
        "rdns_mode": 2,
        "space": "undefined",
        "disabled_boot_architectures": [],
        "resource_uri": f"{API}subnets/1/",
    }


def machine(
    shown: Machine, *, domain: str, network: str, zones: list[str], pools: list[str]
) -> dict[str, Any]:
    """The whole record, about eighty keys."""
    text = _RECORDED.replace(_RECORDED_ID, shown.system_id)
    view: dict[str, Any] = json.loads(text.replace(_RECORDED_MAC, shown.mac_address))
    deployed = shown.status in (Status.DEPLOYING, Status.DEPLOYED, Status.FAILED_DEPLOYMENT)
    view |= {
        "hostname": shown.hostname,
        "fqdn": f"{shown.hostname}.{domain}",
        "domain": view["domain"] | {"name": domain},
        "owner": shown.owner or None,
        "status": int(shown.status),
        "status_name": shown.status.said,
        "status_message": shown.message or None,
        "status_action": "",
        "error_description": shown.message if shown.status is Status.BROKEN else "",
        "owner_data": shown.annotations,
        "workload_annotations": shown.annotations,
        "power_state": "on" if shown.powered else "off",
        "power_type": "ipmi",
        "tag_names": shown.tags,
        "zone": zone(shown.zone, zones),
        "pool": pool(shown.pool, pools),
        "architecture": shown.architecture,
        "cpu_count": shown.cpu_count,
        "memory": shown.memory,
        "locked": shown.locked,
        "netboot": shown.status is not Status.DEPLOYED,
        "osystem": "ubuntu" if deployed else "",
        "distro_series": shown.series,
        "hwe_kernel": shown.hwe_kernel or None,
        "ip_addresses": _addresses(shown),
    }
    link: dict[str, Any] = {"id": shown.number, "mode": "auto", "subnet": subnet(network)}
    if shown.claimed:
        link["ip_address"] = shown.address
    for interface in (view["boot_interface"], *view["interface_set"]):
        interface["links"] = [link]
    return view


def _addresses(shown: Machine) -> list[str]:
    """MAAS lists what it claimed, and what it saw on the wire: a link-local address comes first."""
    if not shown.claimed:
        return []
    return [f"fe80::5054:ff:fe00:{shown.number:x}", shown.address]
