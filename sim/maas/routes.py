"""Which calls there are: one table that is served and from which the API describes itself."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sim.maas.call import Call, Refusal
from sim.maas.events import Events
from sim.maas.machine import USER
from sim.maas.machines import Machines
from sim.maas.names import Names
from sim.maas.orders import Orders
from sim.maas.view import API

VERSION = "3.2.10"
CAPABILITIES = (
    "networks-management",
    "static-ipaddresses",
    "ipv6-deployment-ubuntu",
    "devices-management",
    "storage-deployment-ubuntu",
    "network-deployment-ubuntu",
)

CRUD = {"GET": "read", "POST": "create", "PUT": "update", "DELETE": "delete"}


@dataclass(frozen=True)
class Route:
    """One call: where, how, under which names the description lists it, and who answers."""

    noun: str
    path: str
    method: str
    op: str | None
    answer: Callable[[Call], object]
    open: bool = False
    """Whether it may be called without credentials."""

    @property
    def action(self) -> dict[str, Any]:
        name = self.op or CRUD[self.method]
        return {
            "name": name,
            "op": self.op,
            "method": self.method,
            "restful": self.op is None,
            "doc": f"{name} of {self.noun}.",
        }


def routes(machines: Machines, orders: Orders, names: Names, events: Events) -> list[Route]:
    """Everything that is served below the API's root, its own description excepted."""
    many, one = ("Machines", "machines/"), ("Machine", "machines/{system_id}/")
    dns, record = ("DNSResources", "dnsresources/"), ("DNSResource", "dnsresources/{id}/")
    tags, tag = ("Tags", "tags/"), ("Tag", "tags/{name}/")

    def story(call: Call) -> object:
        return events.query(call, machines.all)

    return [
        Route("Version", "version/", "GET", None, _version, open=True),
        Route("Users", "users/", "GET", "whoami", _whoami),
        Route(*many, "GET", None, machines.listed),
        Route(*many, "GET", "list_allocated", machines.list_allocated),
        Route(*many, "POST", "allocate", orders.allocate),
        Route(*many, "POST", "release", orders.release_all),
        Route(*one, "GET", None, machines.read),
        Route(*one, "PUT", None, orders.forbid),
        Route(*one, "DELETE", None, orders.forbid),
        Route(*one, "GET", "query_power_state", machines.power_state),
        Route(*one, "POST", "deploy", orders.deploy),
        Route(*one, "POST", "release", orders.release),
        Route(*one, "POST", "mark_broken", orders.mark_broken),
        Route(*one, "POST", "mark_fixed", orders.mark_fixed),
        Route(*one, "POST", "set_workload_annotations", orders.annotate),
        Route(*one, "POST", "set_owner_data", orders.annotate),
        Route(*one, "POST", "abort", orders.abort),
        Route(*one, "POST", "lock", orders.lock),
        Route(*one, "POST", "unlock", orders.unlock),
        Route(*one, "POST", "power_on", orders.power_on),
        Route(*one, "POST", "power_off", orders.power_off),
        Route("Events", "events/", "GET", "query", story),
        Route(*tags, "GET", None, machines.tags),
        Route(*tags, "POST", None, orders.forbid),
        Route(*tag, "GET", None, machines.tag),
        Route(*tag, "GET", "machines", machines.tagged),
        Route(*tag, "POST", "update_nodes", orders.forbid),
        Route("Zones", "zones/", "GET", None, machines.zones),
        Route("ResourcePools", "resourcepools/", "GET", None, machines.pools),
        Route("BootResources", "boot-resources/", "GET", None, _boot_resources),
        Route(*dns, "GET", None, names.listed),
        Route(*dns, "POST", None, names.create),
        Route(*record, "GET", None, names.read),
        Route(*record, "PUT", None, names.update),
        Route(*record, "DELETE", None, names.delete),
    ]


class Table:
    """The routes, ready to be looked up."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = list(routes)
        self._patterns: dict[str, re.Pattern[str]] = {}
        for route in self._routes:
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path)
            self._patterns[route.path] = re.compile(pattern)
        plain = json.dumps(self.describe(""), sort_keys=True)
        self.hash = hashlib.sha1(plain.encode(), usedforsecurity=False).hexdigest()

    def find(self, call: Call, *, known: bool) -> tuple[Route, Call]:
        """Who answers the call, and the call with what its path names. Somebody unknown finds the
        machines' anonymous handler, which understands none of this: hence 400 and not 401."""
        paths = {
            path: found
            for path, pattern in self._patterns.items()
            if (found := pattern.fullmatch(call.path))
        }
        if not paths:
            raise Refusal(404, f"Unknown API endpoint: {API}{call.path}.")
        for route in self._routes:
            understood = known or route.open or route.path != "machines/"
            if route.path in paths and (route.method, route.op) == (call.method, call.op):
                if understood:
                    return route, replace(call, at=paths[route.path].groupdict())
                break
        raise Refusal(400, f"Unrecognised signature: method={call.method} op={call.op}")

    def describe(self, origin: str) -> dict[str, Any]:
        """The description as python-libmaas reads it: every handler with its absolute URI."""
        nouns: dict[str, list[Route]] = {}
        for route in self._routes:
            nouns.setdefault(route.noun, []).append(route)
        return {
            "doc": "MAAS API",
            "hash": self.hash if origin else "",
            "resources": [self._resource(noun, rows, origin) for noun, rows in nouns.items()],
        }

    def _resource(self, noun: str, rows: list[Route], origin: str) -> dict[str, Any]:
        def handler(prefix: str, rows: list[Route]) -> dict[str, Any] | None:
            if not rows:
                return None
            path = rows[0].path
            return {
                "name": f"{prefix}{noun}Handler",
                "doc": f"{noun} of the region.",
                "uri": f"{origin}{API}{path}",
                "path": f"{API}{path}",
                "params": re.findall(r"\{(\w+)\}", path),
                "actions": [row.action for row in rows],
            }

        return {
            "name": f"{noun}Handler",
            "auth": handler("", rows),
            "anon": handler("Anon", [row for row in rows if row.open]),
        }


def _version(_: Call) -> dict[str, Any]:
    return {"version": VERSION, "subversion": "", "capabilities": list(CAPABILITIES)}


def _whoami(_: Call) -> dict[str, Any]:
    return {
        "username": USER,
        "email": f"{USER}@example.invalid",
        "is_superuser": False,
        "is_local": True,
        "resource_uri": f"{API}users/{USER}/",
    }


def _boot_resources(call: Call) -> list[dict[str, Any]]:
    """What comes with the image stream. Nobody has uploaded anything."""
    if call.one("type", "synced") != "synced":
        return []
    return [
        {
            "id": number,
            "type": "Synced",
            "name": f"ubuntu/{series}",
            "architecture": "amd64/generic",
            "resource_uri": f"{API}boot-resources/{number}/",
        }
        for number, series in enumerate(("bionic", "focal", "jammy", "noble"), start=1)
    ]
